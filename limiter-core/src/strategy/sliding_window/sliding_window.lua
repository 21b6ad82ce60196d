-- sliding_window: the twin of mod.rs. KEYS, ARGV and the reply are those of driver.lua.
--
-- State: one string, "seen opened last count total ", then "last count " for each older counter, the oldest first. The
-- newest counter opened at `opened`, `last` is when its last call went; `total` is the sum of all counts.
--
-- There may be a thousand counters, but a call seldom looks at more than the first: the older ones stay text, which is
-- read only as far as needed, and is written back as it is from the first that still counts.

-- Ends the script: this is no state of ours.
local function refuse()
  error(redis.error_reply('WRONGSTATE a key holds something that is not the state of a sliding_window'))
end

local function load(key)
  local value = redis.call('GET', key)
  if not value then return { seen = 0, opened = 0, last = 0, count = 0, total = 0, older = '', from = 1 } end

  local seen, opened, last, count, total, from = string.match(value, '^(%d+) (%d+) (%d+) (%d+) (%d+) ()')
  if not seen or from > 86 or string.byte(value, -1) ~= 32 then refuse() end
  return {
    seen = seen + 0,
    opened = opened + 0,
    last = last + 0,
    count = count + 0,
    total = total + 0,
    older = value, -- from here on:
    from = from,
  }
end

local function save(key, log, life)
  local newest = string.format('%d %d %d %d %d ', log.seen, log.opened, log.last, log.count, log.total)
  redis.call('SET', key, newest .. string.sub(log.older, log.from), 'PX', life)
end

-- All that counts moves into the newest counter: at most one window late, and there is one number to move.
local function rewind(log, _, by)
  log.opened, log.last = math.max(0, log.opened - by), log.last - by
  log.count, log.older, log.from = log.total, '', 1
end

-- The older counter at `from`: its last call, its count, and where the next one is. Nothing after the oldest.
local function counter(log, from)
  local _, stop, last, count = string.find(log.older, '^(%d+) (%d+) ', from)
  if stop then return last + 0, count + 0, stop + 1 end
  if from <= #log.older then refuse() end
end

-- The sum of the older counters whose permits are back at `time`, and where the first other one is.
local function returned(log, terms, time)
  local sum, from = 0, log.from
  local last, count, next = counter(log, from)
  while last and last + terms.window <= time do
    sum, from = sum + count, next
    last, count, next = counter(log, from)
  end
  return sum, from
end

local function earliest(log, terms, now, cost)
  if cost > terms.permits then return nil end
  if log.total == 0 then return now end
  local turn = now > log.last and now or log.last
  local needed = cost - (terms.permits - log.total)
  if needed <= 0 or cost == 0 then return turn end

  -- The counter with which enough permits have come back, one window after its last call.
  local last, count, next = counter(log, log.from)
  while last and count < needed do
    needed = needed - count
    last, count, next = counter(log, next)
  end
  local back = (last or log.last) + terms.window
  return back > turn and back or turn
end

local function take(log, terms, at, cost)
  if log.last + terms.window <= at then
    -- Not read so far, and about to be overwritten.
    if string.find(log.older, '[^%d ]', log.from) then refuse() end
    log.total, log.older, log.from = 0, '', 1
  else
    local sum, from = returned(log, terms, at)
    log.total, log.from = log.total - sum, from
  end
  if log.total > 0 and at - log.opened < terms.sample then
    log.count = log.count + cost
  else
    if log.total > 0 then
      log.older = string.sub(log.older, log.from) .. string.format('%d %d ', log.last, log.count)
      log.from = 1
    end
    log.opened, log.count = at, cost
  end
  log.last, log.total = at, log.total + cost
end

local function standing(log, terms, now)
  local reset_after = log.last + terms.window - now
  if log.total == 0 or reset_after <= 0 then return terms.permits, 0 end
  if log.last > now then return 0, reset_after end
  local remaining = terms.permits - (log.total - returned(log, terms, now))
  -- Less than nothing: a redeploy lowered the quota.
  return remaining > 0 and remaining or 0, reset_after
end
