"""What runs inside the server: one script for each write, so that it happens whole or not at all.

The shebang without `allow-oom` makes the server refuse a script before its first command when there
is no room, and every key is declared, so the scripts work in a Cluster. They look at no bytes: headers,
payloads and blocks go in and come out as they are. The clock is the server's.
"""

from __future__ import annotations

# Arguments of every write: the hold (holder, run, milliseconds, whether it may claim, whom it
# succeeds), then what the write itself needs. An empty holder asks nobody.
_BEGIN = """#!lua
local meta, headers, payloads, blocks, entities, grave = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local holder, run, lasts, claims, succeeds = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4] == '1', ARGV[5]
local found = redis.call(
  'HMGET', meta, 'first', 'last', 'holder', 'run', 'until', 'lasts', 'keep', 'blocks', 'entities')
local first, last = tonumber(found[1] or '1'), tonumber(found[2] or '0')

-- A session of which somebody has deleted, or the server has evicted, a key.
local function half()
  return redis.call('LLEN', headers) ~= last - first + 1
    or redis.call('HLEN', payloads) ~= last - first + 1
    or redis.call('HLEN', blocks) ~= tonumber(found[8] or '0')
    or redis.call('HLEN', entities) ~= tonumber(found[9] or '0')
end

local function count_again()
  redis.call('HSET', meta, 'blocks', redis.call('HLEN', blocks), 'entities', redis.call('HLEN', entities))
end

local function refusal()
  if holder == '' or found[3] == holder then return nil end
  if not claims then return {'lost'} end
  if found[3] and found[3] ~= succeeds then
    local left = tonumber(found[5]) - now
    -- The clock was set back: the claim gets its full time from now on, and no more.
    if left > tonumber(found[6]) then
      redis.call('HSET', meta, 'until', now + tonumber(found[6]))
      left = tonumber(found[6])
    end
    if left > 0 then return {'held', found[3], found[4], tostring(left)} end
  end
  return nil
end

local function take()
  if holder == '' then return end
  if lasts <= 0 then
    redis.call('HDEL', meta, 'holder', 'run', 'until', 'lasts')
  elseif found[3] ~= holder or tonumber(found[5]) - now < lasts / 2 then
    redis.call('HSET', meta, 'holder', holder, 'run', run, 'until', now + lasts, 'lasts', lasts)
  end
end
"""

# In a cache all keys of a session end at the same moment; `keep` is the longest that was asked for.
_KEEP = """
local function keep(asked, grave_lasts)
  if grave_lasts == 0 then return end
  local longest = tonumber(found[7] or '0')
  if asked < 0 or longest < 0 then longest = -1 elseif asked > longest then longest = asked end
  redis.call('HSET', meta, 'keep', longest)
  for _, key in ipairs({meta, headers, payloads, blocks, entities}) do
    if longest < 0 then redis.call('PERSIST', key) else redis.call('PEXPIREAT', key, now + longest) end
  end
  if longest < 0 then redis.call('SET', grave, '1')
  else redis.call('SET', grave, '1', 'PX', longest + grave_lasts) end
end
"""

_EXTEND = """
local function extend(at)
  local count = tonumber(ARGV[at])
  at = at + 1
  local more = false
  for number = 1, count do
    last = last + 1
    redis.call('RPUSH', headers, ARGV[at])
    redis.call('HSET', payloads, last, ARGV[at + 1])
    local amount = tonumber(ARGV[at + 2])
    at = at + 3
    more = more or amount > 0 or ARGV[at + 2 * amount] ~= '0'
    for _ = 1, amount do
      redis.call('HSETNX', blocks, ARGV[at], ARGV[at + 1])
      at = at + 2
    end
    amount = tonumber(ARGV[at])
    at = at + 1
    for _ = 1, amount do
      local before = redis.call('HGET', entities, ARGV[at])
      if not before or tonumber(before) < tonumber(ARGV[at + 1]) then
        redis.call('HSET', entities, ARGV[at], ARGV[at + 1])
      end
      at = at + 2
    end
  end
  if count > 0 then
    redis.call('HSET', meta, 'first', first, 'last', last)
  end
  if more then count_again() end
end
"""

APPEND = (
    _BEGIN
    + _KEEP
    + _EXTEND
    + """
local refused = refusal()
if refused then return refused end
if half() then return {'half'} end
if last ~= tonumber(ARGV[6]) then return {'behind', tostring(last)} end
take()
extend(10)
keep(tonumber(ARGV[7]), tonumber(ARGV[8]))
if ARGV[10] ~= '0' then redis.call('PUBLISH', ARGV[9], tostring(last)) end
return {'done'}
"""
)

REWRITE = (
    _BEGIN
    + _KEEP
    + _EXTEND
    + """
if half() then return {'half'} end
if last ~= tonumber(ARGV[6]) then return {'behind', tostring(last)} end
local at = 10
local keep_from = tonumber(ARGV[at])
local count = tonumber(ARGV[at + 1])
at = at + 2
for _ = 1, count do
  local revision = tonumber(ARGV[at])
  if revision >= first and revision <= last then
    redis.call('LSET', headers, revision - first, ARGV[at + 1])
    redis.call('HSET', payloads, revision, ARGV[at + 2])
  end
  at = at + 3
end
if keep_from > last + 1 then keep_from = last + 1 end
if keep_from > first then
  redis.call('LTRIM', headers, keep_from - first, -1)
  for revision = first, keep_from - 1 do redis.call('HDEL', payloads, revision) end
  first = keep_from
  redis.call('HSET', meta, 'first', first)
end
count = tonumber(ARGV[at])
at = at + 1
for _ = 1, count do
  if ARGV[at + 1] == '1' then redis.call('HSET', blocks, ARGV[at], ARGV[at + 2])
  else redis.call('HDEL', blocks, ARGV[at]) end
  at = at + 3
end
count = tonumber(ARGV[at])
at = at + 1
if count < 0 then redis.call('DEL', entities) end
for _ = 1, count do
  redis.call('HDEL', entities, ARGV[at])
  at = at + 1
end
if found[2] then count_again() end
extend(at)
keep(tonumber(ARGV[7]), tonumber(ARGV[8]))
redis.call('PUBLISH', ARGV[9], tostring(last))
return {'done'}
"""
)

HOLD = (
    _BEGIN
    + _KEEP
    + """
if lasts <= 0 and found[3] ~= holder then return {'done'} end
local refused = refusal()
if refused then return refused end
take()
if found[2] then keep(0, tonumber(ARGV[8])) end
return {'done'}
"""
)

READ = """#!lua flags=no-writes,allow-stale
local found = redis.call('HMGET', KEYS[1], 'first', 'last', 'blocks', 'entities')
local first, last = tonumber(found[1] or '1'), tonumber(found[2] or '0')
local from = tonumber(ARGV[1]) + 1
if from < first then from = first end
local whole = redis.call('LLEN', KEYS[2]) == last - first + 1
  and redis.call('HLEN', KEYS[3]) == last - first + 1
  and redis.call('HLEN', KEYS[4]) == tonumber(found[3] or '0')
  and redis.call('HLEN', KEYS[5]) == tonumber(found[4] or '0')
local state = whole and (found[2] and 'whole' or 'none') or 'half'
if state == 'none' and redis.call('EXISTS', KEYS[6]) == 1 then state = 'gone' end
if state ~= 'whole' or from > last then return {state, from, {}} end
return {state, from, redis.call('LRANGE', KEYS[2], from - first, -1)}
"""
