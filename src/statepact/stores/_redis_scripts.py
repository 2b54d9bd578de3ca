"""What runs inside the server: a commit is one script, all or nothing.

A session is one hash. Fields, beside the few of `_STATE`:

    h1 h2 …   headers, by revision          b<address>   large values
    p1 p2 …   payloads                      e<entity>    "<number> <when>"
    E1 E2 …   entities, by number

The scripts move bytes and compare numbers. All keys are declared, TIME is the server's, and everything
that may refuse comes before the first write, so a refusal of the server itself (no memory, read-only
replica, broken disk), which it gives at the first write, leaves nothing behind.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple


class Script(NamedTuple):
    """A script and the name under which the server knows it."""

    text: bytes
    sha: bytes


def _script(*parts: str) -> Script:
    text = "\n".join(parts).encode()
    return Script(text, hashlib.sha1(text, usedforsecurity=False).hexdigest().encode())


# n newest revision · f oldest · w how often it was rewritten · m entities so far
# run, holder, until, span: who holds it, until when and for how long at a time (ms)
# keep: longest lifetime asked for so far (ms), -1 for "until deleted"
_STATE = """
local key, trace = KEYS[1], KEYS[2]
local at = 1
local function arg() at = at + 1; return ARGV[at - 1] end
local function now()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
end
local function text(x) return string.format('%.0f', x) end
local s = redis.call('HMGET', key, 'n', 'f', 'w', 'm', 'holder', 'run', 'until', 'span', 'keep')
local n, first = tonumber(s[1] or '0'), tonumber(s[2] or '1')
"""

# Returns a refusal, or the fields that `take` is to set.
_HOLD = """
local function refused(run, holder, span, claim, succeeds)
  if s[5] == holder then return nil end
  if claim == '0' then return {'lost'} end
  if not s[5] or s[5] == succeeds then return nil end
  local left = tonumber(s[7]) - now()
  if left > tonumber(s[8]) then
    -- The clock was set back. The claim gets its full time from now on, and no more.
    left = tonumber(s[8])
    redis.call('HSET', key, 'until', text(now() + left))
  end
  if left > 0 then return {'held', s[5], s[6], text(left)} end
  return nil
end
local function take(fields, run, holder, span)
  if tonumber(span) <= 0 then
    if s[5] then redis.call('HDEL', key, 'holder', 'run', 'until', 'span') end
    return
  end
  for _, x in ipairs({'holder', holder, 'run', run, 'until', text(now() + tonumber(span)), 'span', span}) do
    fields[#fields + 1] = x
  end
end
"""

# `keep` is '' in a record: nothing in it ends by itself. In a cache everything has one end.
_LIFE = """
local function live(keep, span, memory)
  if keep == '' then
    if not s[1] then redis.call('SET', trace, 'kept') end
    return
  end
  local longest = tonumber(s[9] or '0')
  keep = tonumber(keep)
  if keep < 0 or longest < 0 then longest = -1 elseif keep > longest then longest = keep end
  if text(longest) ~= s[9] then redis.call('HSET', key, 'keep', text(longest)) end
  if longest < 0 then
    redis.call('PERSIST', key)
    redis.call('SET', trace, 'kept')
    return
  end
  local ends = text(now() + math.max(longest, tonumber(span), 1))
  redis.call('SET', trace, ends, 'PXAT', text(tonumber(ends) + tonumber(memory)))
  redis.call('PEXPIREAT', key, ends)
end
"""

_EXTEND = """
local function set(fields)
  for i = 1, #fields, 1000 do
    redis.call('HSET', key, unpack(fields, i, math.min(i + 999, #fields)))
  end
end
local function extend(fields)
  local entries, blocks, entities = tonumber(arg()), tonumber(arg()), tonumber(arg())
  for i = 1, entries do
    n = n + 1
    fields[#fields + 1] = 'h' .. n
    fields[#fields + 1] = arg()
    fields[#fields + 1] = 'p' .. n
    fields[#fields + 1] = arg()
  end
  if entries > 0 then
    fields[#fields + 1] = 'n'
    fields[#fields + 1] = n
  end
  if #fields > 0 then set(fields) end
  for i = 1, blocks do redis.call('HSETNX', key, arg(), arg()) end
  local m = tonumber(redis.call('HGET', key, 'm') or '0')
  for i = 1, entities do
    local name, when = arg(), arg()
    local known = redis.call('HGET', key, 'e' .. name)
    local number, last = string.match(known or '', '^(%d+) (%-?%d+)$')
    if not number then
      m = m + 1
      redis.call('HSET', key, 'E' .. m, name, 'e' .. name, m .. ' ' .. when, 'm', m)
    elseif tonumber(when) > tonumber(last) then
      redis.call('HSET', key, 'e' .. name, number .. ' ' .. when)
    end
  end
end
"""

# A session that was there and has not ended by itself must not begin again as an empty one.
_GONE = """
local function gone()
  if s[1] then return nil end
  local ends = redis.call('GET', trace)
  if not ends then return nil end
  if ends == 'kept' then return 'evicted' end
  if now() < tonumber(ends) then return 'evicted' end
  return 'expired'
end
"""

APPEND = _script(
    _STATE,
    _HOLD,
    _LIFE,
    _EXTEND,
    _GONE,
    """
local after, late, keep, memory, channel = tonumber(arg()), arg(), arg(), arg(), arg()
local run, holder, span, claim, succeeds = arg(), arg(), arg(), arg(), arg()
if not s[1] and keep == '' and gone() then return {'gone', 'evicted'} end
if late ~= '' and now() > tonumber(late) then return {'late'} end
if holder ~= '' then
  local no = refused(run, holder, span, claim, succeeds)
  if no then return no end
end
if n ~= after then return {'behind', n} end
local fields = {}
if holder ~= '' then take(fields, run, holder, span) end
local before = n
extend(fields)
if n > before then
  live(keep, span, memory)
  redis.pcall('PUBLISH', channel, n)
elseif holder ~= '' and keep ~= '' then
  if s[1] then live('0', span, memory) else redis.call('PEXPIRE', key, math.max(tonumber(span), 1)) end
end
return {'ok', n}
""",
)
"""KEYS state, trace. ARGV: after, latest time or '', lifetime or '', life of the trace, channel, hold,
numbers of entries, blocks and entities, and all of these."""

HOLD = _script(
    _STATE,
    _HOLD,
    _LIFE,
    """
local keep, memory = arg(), arg()
local run, holder, span, claim, succeeds = arg(), arg(), arg(), arg(), arg()
if tonumber(span) <= 0 and s[5] ~= holder then return {'ok', n} end
local no = refused(run, holder, span, claim, succeeds)
if no then return no end
local fields = {}
take(fields, run, holder, span)
if #fields > 0 then redis.call('HSET', key, unpack(fields)) end
if keep ~= '' then
  if s[1] then live('0', span, memory) else redis.call('PEXPIRE', key, math.max(tonumber(span), 1)) end
end
return {'ok', n}
""",
)

REWRITE = _script(
    _STATE,
    _LIFE,
    _EXTEND,
    _GONE,
    """
local after, late, keep, memory, channel = tonumber(arg()), arg(), arg(), arg(), arg()
if not s[1] and keep == '' and gone() then return {'gone', 'evicted'} end
if late ~= '' and now() > tonumber(late) then return {'late'} end
if n ~= after then return {'behind', n} end
local fields = {}
for i = 1, tonumber(arg()) do
  local revision, header, payload = arg(), arg(), arg()
  if tonumber(revision) >= first and tonumber(revision) <= n then
    for _, x in ipairs({'h' .. revision, header, 'p' .. revision, payload}) do fields[#fields + 1] = x end
  end
end
local from = tonumber(arg())
if n == 0 and from > 1 then
  -- A session without entries begins where it is told to.
  n, first = from - 1, from
  fields[#fields + 1] = 'f'
  fields[#fields + 1] = from
end
from = math.min(math.max(from, first), n + 1)
if from > first then
  fields[#fields + 1] = 'f'
  fields[#fields + 1] = from
end
if s[1] then
  fields[#fields + 1] = 'w'
  fields[#fields + 1] = tonumber(s[3] or '0') + 1
end
if #fields > 0 then set(fields) end
for i = first, from - 1 do redis.call('HDEL', key, 'h' .. i, 'p' .. i) end
for i = 1, tonumber(arg()) do
  local address, has, data = arg(), arg(), arg()
  if has == '1' then redis.call('HSET', key, address, data) else redis.call('HDEL', key, address) end
end
local forget = tonumber(arg())
local function drop(name)
  local number = string.match(redis.call('HGET', key, 'e' .. name) or '', '^(%d+) ')
  if number then redis.call('HDEL', key, 'e' .. name, 'E' .. number) end
end
if forget < 0 then
  for i = 1, tonumber(s[4] or '0') do
    local name = redis.call('HGET', key, 'E' .. i)
    if name then drop(name) end
  end
  redis.call('HDEL', key, 'm')
else
  for i = 1, forget do drop(arg()) end
end
local before = n
extend({})
if n > before then
  live(keep, '0', memory)
  redis.pcall('PUBLISH', channel, n)
end
return {'ok', n}
""",
)

HEADERS = _script(
    _STATE,
    _GONE,
    """
local after, most = tonumber(arg()), tonumber(arg())
if not s[1] then return {0, 1, 0, gone() or ''} end
local answer = {n, first, tonumber(s[3] or '0'), ''}
local start = math.max(after + 1, first)
local stop = math.min(n, start + most - 1)
for i = start, stop, 500 do
  local names = {}
  for j = i, math.min(i + 499, stop) do names[#names + 1] = 'h' .. j end
  for _, header in ipairs(redis.call('HMGET', key, unpack(names))) do answer[#answer + 1] = header end
end
return answer
""",
)
"""Returns newest, oldest, number of rewrites, what has become of it if it is not there, headers."""

ENTITIES = _script(
    _STATE,
    """
local found = {}
for i = 1, tonumber(s[4] or '0') do
  local name = redis.call('HGET', key, 'E' .. i)
  if name then
    found[#found + 1] = name
    found[#found + 1] = string.match(redis.call('HGET', key, 'e' .. name), ' (%-?%d+)$')
  end
end
return found
""",
)

PEND = _script(
    """
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
redis.call('ZADD', KEYS[1], now, ARGV[1])
return now
"""
)
"""Notes that a session's entities may change; returns the server's time in ms."""

PENDING = _script(
    """
local t = redis.call('TIME')
local found = redis.call('ZRANGE', KEYS[1], ARGV[1], ARGV[2], 'WITHSCORES')
table.insert(found, 1, tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000))
return found
"""
)

LATEST = _script(
    "return redis.call('ZRANGE', KEYS[1], ARGV[1], '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, ARGV[2], 'WITHSCORES')"
)
"""Members with a score of at most ARGV[1], the highest first, ARGV[2] of them at most."""
