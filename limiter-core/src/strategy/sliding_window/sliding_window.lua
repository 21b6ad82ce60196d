-- sliding_window: the twin of mod.rs. KEYS, ARGV and the reply are those of driver.lua.
--
-- State: a byte that no text begins with, then as doubles when it was written (`seen`), until when the key lives,
-- `opened`, `last`, `count` and `total`, then the last call and the count of each older counter, the oldest first. The
-- newest counter opened at `opened`, `last` is when its last call went; `total` is the sum of all counts.
--
-- There may be a thousand counters, but a call seldom looks at more than the first: the older ones stay packed, are read
-- only as far as needed, and are written back as they are from the first that still counts.

local FORMAT, SIZE, MARK = '<Bdddddd', 49, 0xb3

-- One call for each key: the same as below in one piece, as long as nothing is out of the ordinary.
local reply, done, found = { 0, 0, 0 }, 0, nil
if #ARGV[1] == 40 + 32 * #KEYS then
  local keys, argument, call, pack, unpack = KEYS, ARGV[1], redis.call, struct.pack, struct.unpack
  local subjects, permits, window, _, sample, next = unpack('<ddddd', argument)
  while done < subjects and subjects == #keys do
    local key, calls, cost, longest_wait = keys[done + 1]
    _, calls, cost, longest_wait, next = unpack('<dddd', argument, next)
    found = redis.pcall('GET', key)
    local mark, seen, lives, opened, last, count, total, from = MARK, 0, 0, 0, 0, 0, 0, 1
    if found then
      mark = 0
      if #found >= SIZE and (#found - SIZE) % 16 == 0 then
        mark, seen, lives, opened, last, count, total, from = unpack(FORMAT, found)
      end
    end
    if mark ~= MARK or seen > time or last > time then break end
    if calls > 1 or cost == 0 or longest_wait < 0 then break end

    local older = ''
    if last + window <= time then
      total = 0
    elseif found and from < #found then
      local went, back, after = unpack('<dd', found, from)
      while went + window <= time do
        total, from = total - back, after
        if from > #found then break end
        went, back, after = unpack('<dd', found, from)
      end
      older = string.sub(found, from)
    end
    if cost > permits - total then break end
    if total > 0 and time - opened < sample then
      count = count + cost
    else
      if total > 0 then older = older .. pack('<dd', last, count) end
      opened, count = time, cost
    end
    total = total + cost
    if lives >= time + window then
      call('SET', key, pack(FORMAT, MARK, time, lives, opened, time, count, total) .. older, 'KEEPTTL')
    else
      local life = (window + (-window) % 1000) / 1000 + spare_life
      lives = time + life * 1000
      call('SET', key, pack(FORMAT, MARK, time, lives, opened, time, count, total) .. older, 'PX', life + margin)
    end
    local filled = 3 * done
    reply[filled + 1], reply[filled + 2], reply[filled + 3] = 0, permits - total, window
    done, found = done + 1, nil
  end
  if done == #keys then return reply end
end

local function load(key)
  local value = found
  if value == nil then value = redis.pcall('GET', key) end
  found = nil
  if not value then return { seen = 0, opened = 0, last = 0, count = 0, total = 0, older = '', from = 1 } end
  if value.err then return nil, value end

  local mark, seen, _, opened, last, count, total, from
  if #value >= SIZE and (#value - SIZE) % 16 == 0 then
    mark, seen, _, opened, last, count, total, from = struct.unpack(FORMAT, value)
  end
  if mark ~= MARK then
    return nil, redis.error_reply('WRONGSTATE a key holds something that is not the state of a sliding_window')
  end
  return {
    seen = seen,
    opened = opened,
    last = last,
    count = count,
    total = total,
    older = value, -- from here on:
    from = from,
  }
end

local function save(key, log, lives, life)
  local newest = struct.pack(FORMAT, MARK, log.seen, lives, log.opened, log.last, log.count, log.total)
  redis.call('SET', key, newest .. string.sub(log.older, log.from), 'PX', life)
end

-- All that counts moves into the newest counter: at most one window late, and there is one number to move.
local function rewind(log, _, by)
  log.opened, log.last = math.max(0, log.opened - by), log.last - by
  log.count, log.older, log.from = log.total, '', 1
end

-- The older counter at `from`: its last call, its count, and where the next one is. Nothing after the oldest.
local function counter(log, from)
  if from < #log.older then return struct.unpack('<dd', log.older, from) end
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
    log.total, log.older, log.from = 0, '', 1
  else
    local sum, from = returned(log, terms, at)
    log.total, log.from = log.total - sum, from
  end
  if log.total > 0 and at - log.opened < terms.sample then
    log.count = log.count + cost
  else
    if log.total > 0 then
      log.older = string.sub(log.older, log.from) .. struct.pack('<dd', log.last, log.count)
      log.from = 1
    end
    log.opened, log.count = at, cost
  end
  log.last, log.total = at, log.total + cost
end

-- Takes as many more of these calls as can go at once, after one that did. Says how many, and how much longer it takes
-- with each until all permits are back.
local function take_more(log, terms, _, cost, most)
  local room = terms.permits - log.total
  local more = math.min(most, (room - room % cost) / cost)
  log.count, log.total = log.count + more * cost, log.total + more * cost
  return more, 0
end

local function standing(log, terms, now)
  local reset_after = log.last + terms.window - now
  if log.total == 0 or reset_after <= 0 then return terms.permits, 0 end
  if log.last > now then return 0, reset_after end
  local remaining = terms.permits - (log.total - returned(log, terms, now))
  -- Less than nothing: a redeploy lowered the quota.
  return remaining > 0 and remaining or 0, reset_after
end
