-- sliding_log: the twin of mod.rs. KEYS, ARGV and the reply are those of driver.lua.
--
-- State: a sorted set with an entry for each call. Its score is the running total of permits up to it, its member
-- "last count", or "last count seen" where the call waits: when it goes, what it takes, when it was written. Calls of
-- the same microsecond are one entry.
--
-- The newest entry is held here and written when the next one opens, so that a batch of calls at one time is one write.
-- Entries that no longer count may stay: what is needed is found by totals, whatever lies before. With every write some
-- of them are removed, more than one write adds.

local reply, done = {}, 0

-- How many more entries than it adds a script removes at the most.
local PRUNED = 100
-- The largest total, up to which all are exact.
local MOST = 2 ^ 53 - 1

-- The first or second entry of a reply WITHSCORES: last, count, the total with it, its member, when it was written.
local function entry(found, second)
  local at = second and 3 or 1
  local member = found[at]
  if not member then return nil end
  local last, count, seen = string.match(member, '^(%d+) (%d+) ?(%d*)$')
  if not last or #member > 50 then
    error(redis.error_reply('WRONGSTATE a key holds something that is not the state of a sliding_log'))
  end
  last = last + 0
  return last, count + 0, found[at + 1] + 0, member, tonumber(seen) or last
end

local function load(key)
  local log = { key = key, seen = 0, last = 0, count = 0, total = 0, added = 0 }
  local newest = redis.pcall('ZRANGE', key, '-1', '-1', 'WITHSCORES')
  if newest.err then return nil, newest end
  local last, count, total, member, seen = entry(newest)
  if last then log.last, log.count, log.total, log.written, log.seen = last, count, total, member, seen end
  return log
end

-- Writes the newest entry. What it replaces goes after that: a server without memory refuses the first write, and then
-- nothing is lost.
local function flush(log)
  if not log.changed then return end
  local member
  if log.last == log.seen then
    member = string.format('%d %d', log.last, log.count)
  else
    member = string.format('%d %d %d', log.last, log.count, log.seen)
  end
  redis.call('ZADD', log.key, log.total, member)
  if log.written then redis.call('ZREM', log.key, log.written) end
  log.written, log.changed = member, false
end

local function save(key, log, _, life)
  flush(log)
  if log.returned and log.returned > 0 then
    redis.call('ZREMRANGEBYRANK', key, '0', math.min(log.returned, PRUNED + log.added) - 1)
  end
  redis.call('PEXPIRE', key, life)
end

-- How many entries have their permits back at `time`, and the total before the first other one. It looks at few: at the
-- oldest two, which mostly do, then on in steps that double, then in halves.
local function returned(log, terms, time)
  local newest_back = time - terms.window
  local oldest = redis.call('ZRANGE', log.key, '0', '1', 'WITHSCORES')
  local last, count, before = entry(oldest)
  if not last then return 0, log.total - log.count end
  if last > newest_back then return 0, before - count end
  local second, _, total = entry(oldest, true)
  if not second or second > newest_back then return 1, before end

  local function total_if_back(rank)
    local last, _, total = entry(redis.call('ZRANGE', log.key, rank, rank, 'WITHSCORES'))
    return last and last <= newest_back and total
  end
  local back, other = 0, 1
  while total do
    before, back, other = total, other, other * 2
    total = total_if_back(other)
  end
  while other - back > 1 do
    local middle = math.floor((back + other) / 2)
    total = total_if_back(middle)
    if total then
      before, back = total, middle
    else
      other = middle
    end
  end
  return back + 1, before
end

-- The total of the calls whose permits are back now, looked up once in a script.
local function before_now(log, terms, now)
  if not log.before then log.returned, log.before = returned(log, terms, now) end
  return log.before
end

-- All that counts at `time` becomes one entry, as if it had gone at `last`: entries are too many to change each.
local function collapse(log, terms, time, last)
  flush(log)
  local _, before = returned(log, terms, time)
  -- Refused where there is no memory, while nothing is lost yet.
  redis.call('ZADD', log.key, MOST, '')
  redis.call('UNLINK', log.key)
  local total = log.total - before
  log.last, log.count, log.total = last, total, total
  log.written, log.changed = nil, total > 0
  log.returned, log.before = 0, 0
end

local function rewind(log, terms, by)
  collapse(log, terms, log.last, log.last - by)
end

local function earliest(log, terms, now, cost)
  local permits = terms.permits
  if cost > permits then return nil end
  if log.total == 0 then return now end
  if log.last <= now and cost <= permits - (log.total - before_now(log, terms, now)) then return now end
  local turn = now > log.last and now or log.last
  if cost == 0 then return turn end

  -- The entry with which enough permits have come back, one window after its call. The newest may not be written yet.
  local needed = log.total + cost - permits
  local found = redis.call('ZRANGEBYSCORE', log.key, needed, '+inf', 'WITHSCORES', 'LIMIT', '0', '1')
  local last, count, total = entry(found)
  if not last then last, count, total = log.last, log.count, log.total end
  -- Not even that one is needed, where it is the oldest.
  if needed <= total - count then return turn end
  local back = last + terms.window
  return back > turn and back or turn
end

local function take(log, terms, at, cost)
  -- Also where everybody waits, what is back goes with this write.
  before_now(log, terms, log.seen)
  -- Totals start anew before they get inexact, at the price of permits that come back up to a window late.
  if log.total + cost > MOST then collapse(log, terms, at, log.last) end
  if log.total > 0 and at == log.last then
    log.count = log.count + cost
  else
    flush(log)
    log.last, log.count, log.written, log.added = at, cost, nil, log.added + 1
  end
  log.total, log.changed = log.total + cost, true
end

-- Takes as many more of these calls as can go at once, after one that did. Says how many, and how much longer it takes
-- with each until all permits are back.
local function take_more(log, terms, now, cost, most)
  local room = math.min(terms.permits - (log.total - before_now(log, terms, now)), MOST - log.total)
  local more = math.min(most, (room - room % cost) / cost)
  log.count, log.total = log.count + more * cost, log.total + more * cost
  return more, 0
end

local function standing(log, terms, now)
  local reset_after = log.last + terms.window - now
  if log.total == 0 or reset_after <= 0 then return terms.permits, 0 end
  if log.last > now then return 0, reset_after end
  local remaining = terms.permits - (log.total - before_now(log, terms, now))
  -- Less than nothing: a redeploy lowered the quota.
  return remaining > 0 and remaining or 0, reset_after
end
