"""Does an output agree with the earlier facts that it answers?"""

from __future__ import annotations

from statepact.contracts import Contract, linked_fields
from statepact.workflow._run_scope import RunScope, erased_for, value_of


async def check_links(run: RunScope, value: Contract, links: dict[str, bool]) -> None:
    """Compare linked fields with the facts they answer, as far as the run has them; adds to `links`."""
    for fact in linked_fields(type(value)):
        for link in fact.links:
            cells = run.snapshot().cells(link.contract.contract_name)[-1:]
            if not cells:
                continue
            await run.log.fetch(cells)
            if link.field in cells[0].erased or erased_for(cells[0], link.contract):
                continue  # what would be answered has been erased
            earlier = getattr(value_of(cells[0], link.contract), link.field)
            if earlier is None:
                continue  # there is nothing to answer
            name = f"{fact.name}={link.contract.contract_name}.{link.field}"
            # Two outputs of one commit may answer the same fact; both have to agree.
            links[name] = link.holds(earlier, getattr(value, fact.name)) and links.get(name, True)
