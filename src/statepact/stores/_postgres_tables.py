"""The tables of the PostgreSQL store and the functions that write them.

Layout, and why it is this one:

- A commit is one call of `append`, so it is one round trip and one transaction. Its first statement
  changes the session's row; the lock on that row orders the commits of a session, and nothing else
  waits for it.
- Names stand in `owner` and `session` only, everything else is keyed by numbers. They are compared
  byte by byte (`collate "C"`), whatever the collation of the database.
- `session.revision` says where the log ends, so that neither a commit nor a listing has to look it up.
- Values are stored as they come (`external`): compressing them would be in the path of every step,
  and what is encrypted does not get smaller.
- No foreign keys: only these functions write, and the check would cost a lock on each commit.
- A commit asks whether anybody waits for the session before it sends: those who wait hold a shared
  advisory lock on its place. PostgreSQL lets only one transaction with a notice commit at a time, in
  the whole server, so notices that nobody waits for would end group commit.

`{schema}` stands for the quoted name of the schema.
"""

from __future__ import annotations

TABLES = (
    "create table {schema}.owner(id bigint generated always as identity primary key,"
    ' name text collate "C" not null unique)',
    "create table {schema}.session(id bigint generated always as identity primary key, owner bigint not null,"
    ' name text collate "C" not null, revision bigint not null default 0,'
    " run text, holder text, seconds double precision, until timestamptz, unique(owner, name))"
    # Room for the next version of a row on the same page, so that no index has to be touched.
    " with (fillfactor=70)",
    "create table {schema}.entry(session bigint not null, revision bigint not null, header bytea not null,"
    " payload bytea not null, primary key(session, revision))",
    "alter table {schema}.entry alter column payload set storage external",
    "create table {schema}.block(session bigint not null, address bytea not null, bytes bytea not null,"
    " primary key(session, address))",
    "alter table {schema}.block alter column bytes set storage external",
    # `thing` is a digest of kind and value: both together may be longer than an index can hold.
    "create table {schema}.entity(session bigint not null, thing bytea not null, owner bigint not null,"
    ' kind text collate "C" not null, value text collate "C" not null, at bigint not null,'
    " primary key(session, thing))",
    "create index entity_value on {schema}.entity(owner, (left(value, 64)))",
    "create index entity_latest on {schema}.entity(owner, at)",
)

_THING = "sha256(convert_to(length({kind}) || ':' || {kind} || {value}, 'UTF8'))"

# Milliseconds after which another use of an entity is worth a write.
_ENTITY_IS_NEWS = 60_000

# Parts of several functions, put in as text: a function that calls another one pays 7 µs.
_NOTICE = """
    -- Held until the commit is visible: who takes the lock after this look finds the commit.
    if not pg_try_advisory_xact_lock(in_place) then
      perform pg_notify({channel}, in_place::text);
    end if;
"""

_DURABLE = """
  -- Only for this transaction, so it holds behind a pooler and against the settings of a role, too.
  -- `remote_apply` is more than `on`, everything else is less.
  if not in_durable then
    perform set_config('synchronous_commit', 'off', true);
  elsif current_setting('synchronous_commit') not in ('on', 'remote_apply') then
    perform set_config('synchronous_commit', 'on', true);
  end if;
"""

_EXTEND = """
create function {schema}.extend(
  in_owner bigint, in_session bigint, in_after bigint, in_headers bytea[], in_payloads bytea[],
  in_addresses bytea[], in_blocks bytea[], in_kinds text[], in_values text[], in_ats bigint[]
) returns void language plpgsql as $$
begin
  insert into {schema}.entry(session, revision, header, payload)
    select in_session, in_after + e.number, e.header, e.payload
    from unnest(in_headers, in_payloads) with ordinality as e(header, payload, number);
  if cardinality(in_addresses) > 0 then
    insert into {schema}.block(session, address, bytes)
      select in_session, b.address, b.bytes from unnest(in_addresses, in_blocks) as b(address, bytes)
      on conflict do nothing;
  end if;
  if cardinality(in_kinds) > 0 then
    insert into {schema}.entity as old (session, thing, owner, kind, value, at)
      select in_session, {thing}, in_owner, e.kind, e.value, max(e.at)
      from unnest(in_kinds, in_values, in_ats) as e(kind, value, at) group by e.kind, e.value
      on conflict (session, thing) do update set at = excluded.at where excluded.at > old.at + {news};
  end if;
end $$
""".replace("{thing}", _THING.format(kind="e.kind", value="e.value")).replace("{news}", str(_ENTITY_IS_NEWS))

# What a session is asked when a write has not found it as it should be. Null if it is as it should be
# after all, because somebody has changed it in between or it has just been made: try again.
_REFUSED = """
create function {schema}.refused(
  in_owner text, in_session text, in_after bigint, in_new boolean,
  in_holder text, in_claim boolean, in_succeeds text
) returns text[] language plpgsql as $$
declare
  ends bigint := 0;
  held_by text;
  held_run text;
  length double precision;
  seconds_left double precision;
begin
  select s.revision, s.holder, s.run, s.seconds, extract(epoch from s.until - clock_timestamp())
    into ends, held_by, held_run, length, seconds_left
    from {schema}.session s join {schema}.owner o on o.id = s.owner
    where o.name = in_owner and s.name = in_session;
  if not found then
    ends := 0;
  end if;
  if in_holder is not null and held_by is distinct from in_holder then
    if not in_claim then
      return array['lost'];
    elsif held_by is not null and seconds_left > 0 and held_by is distinct from in_succeeds then
      if seconds_left > length then
        -- The clock was set back. The claim gets its full time from now on, and no more.
        update {schema}.session s set until = clock_timestamp() + make_interval(secs => s.seconds)
          from {schema}.owner o
          where o.id = s.owner and o.name = in_owner and s.name = in_session and s.holder = held_by;
        seconds_left := length;
      end if;
      return array['held', held_by, held_run, seconds_left::text];
    end if;
  end if;
  if ends <> in_after then
    return array['behind', ends::text];
  elsif in_new then
    insert into {schema}.owner(name) values (in_owner) on conflict do nothing;
    insert into {schema}.session(owner, name) select id, in_session from {schema}.owner where name = in_owner
      on conflict do nothing;
  end if;
  return null;
end $$
"""

_APPEND = """
create function {schema}.append(
  in_owner text, in_session text, in_after bigint, in_place bigint, in_durable boolean,
  in_headers bytea[], in_payloads bytea[], in_addresses bytea[], in_blocks bytea[],
  in_kinds text[], in_values text[], in_ats bigint[],
  in_run text, in_holder text, in_seconds double precision, in_claim boolean, in_succeeds text
) returns text[] language plpgsql as $$
declare
  refusal text[];
  mine bigint;
  owns bigint;
  added integer := cardinality(in_headers);
  new boolean := added > 0 or (in_holder is not null and in_seconds > 0);
begin
{durable}  loop
    if new then
      update {schema}.session s set
          revision = s.revision + added,
          run = case when in_holder is null then s.run when in_seconds > 0 then in_run end,
          holder = case when in_holder is null then s.holder when in_seconds > 0 then in_holder end,
          seconds = case when in_holder is null then s.seconds when in_seconds > 0 then in_seconds end,
          until = case when in_holder is null then s.until
                       when in_seconds > 0 then clock_timestamp() + make_interval(secs => in_seconds) end
        from {schema}.owner o
        where o.id = s.owner and o.name = in_owner and s.name = in_session and s.revision = in_after
          and (in_holder is null or s.holder = in_holder
               or (in_claim and (s.holder is null or s.until <= clock_timestamp() or s.holder = in_succeeds)))
        returning s.id, s.owner into mine, owns;
      exit when found;
    end if;
    refusal := {schema}.refused(in_owner, in_session, in_after, new, in_holder, in_claim, in_succeeds);
    if refusal is not null or not new then
      return refusal;
    end if;
  end loop;
  if added > 0 then
    perform {schema}.extend(owns, mine, in_after, in_headers, in_payloads, in_addresses, in_blocks,
                            in_kinds, in_values, in_ats);
{notice}  end if;
  return null;
end $$
"""

_HOLD = """
create function {schema}.hold(
  in_owner text, in_session text, in_durable boolean,
  in_run text, in_holder text, in_seconds double precision, in_claim boolean, in_succeeds text
) returns text[] language plpgsql as $$
declare
  refusal text[];
begin
{durable}  if in_seconds <= 0 then
    update {schema}.session s set run = null, holder = null, seconds = null, until = null
      from {schema}.owner o
      where o.id = s.owner and o.name = in_owner and s.name = in_session and s.holder = in_holder;
    return null;
  end if;
  loop
    update {schema}.session s set run = in_run, holder = in_holder, seconds = in_seconds,
        until = clock_timestamp() + make_interval(secs => in_seconds)
      from {schema}.owner o
      where o.id = s.owner and o.name = in_owner and s.name = in_session
        and (s.holder = in_holder
             or (in_claim and (s.holder is null or s.until <= clock_timestamp() or s.holder = in_succeeds)));
    if found then
      return null;
    end if;
    refusal := {schema}.refused(in_owner, in_session, null, true, in_holder, in_claim, in_succeeds);
    if refusal is not null then
      return refusal;
    end if;
  end loop;
end $$
"""

_REWRITE = """
create function {schema}.rewrite(
  in_owner text, in_session text, in_after bigint, in_place bigint, in_durable boolean,
  in_revisions bigint[], in_new_headers bytea[], in_new_payloads bytea[], in_first bigint,
  in_new_addresses bytea[], in_new_blocks bytea[],
  in_forget_all boolean, in_forget_kinds text[], in_forget_values text[],
  in_headers bytea[], in_payloads bytea[], in_addresses bytea[], in_blocks bytea[],
  in_kinds text[], in_values text[], in_ats bigint[]
) returns text[] language plpgsql as $$
declare
  refusal text[];
  mine bigint;
  owns bigint;
  added integer := cardinality(in_headers);
  -- A session without entries begins where it is told to.
  ends bigint := case when in_after = 0 and added > 0 then greatest(in_first - 1, 0) else in_after end;
begin
{durable}  loop
    update {schema}.session s set revision = ends + added
      from {schema}.owner o
      where o.id = s.owner and o.name = in_owner and s.name = in_session and s.revision = in_after
      returning s.id, s.owner into mine, owns;
    exit when found;
    refusal := {schema}.refused(in_owner, in_session, in_after, added > 0, null, null, null);
    if refusal is not null or (added = 0 and in_after = 0) then
      return refusal;
    end if;
  end loop;
  update {schema}.entry e set header = n.header, payload = n.payload
    from unnest(in_revisions, in_new_headers, in_new_payloads) as n(revision, header, payload)
    where e.session = mine and e.revision = n.revision;
  delete from {schema}.entry e where e.session = mine and e.revision < in_first;
  delete from {schema}.block b where b.session = mine and b.address = any(in_new_addresses);
  insert into {schema}.block(session, address, bytes)
    select mine, n.address, n.bytes from unnest(in_new_addresses, in_new_blocks) as n(address, bytes)
    where n.bytes is not null;
  delete from {schema}.entity e where e.session = mine and (in_forget_all or e.thing in (
    select {thing} from unnest(in_forget_kinds, in_forget_values) as f(kind, value)));
  perform {schema}.extend(owns, mine, ends, in_headers, in_payloads, in_addresses, in_blocks,
                          in_kinds, in_values, in_ats);
{notice}  return null;
end $$
""".replace("{thing}", _THING.format(kind="f.kind", value="f.value"))

FUNCTIONS = tuple(
    text.replace("{durable}", _DURABLE.lstrip("\n")).replace("{notice}", _NOTICE.lstrip("\n"))
    for text in (_EXTEND, _REFUSED, _APPEND, _HOLD, _REWRITE)
)
