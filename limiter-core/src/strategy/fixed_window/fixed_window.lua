-- fixed_window: the twin of mod.rs. KEYS, ARGV and the reply are those of driver.lua.
--
-- State: a byte that no text begins with, then as doubles when it was written (`seen`), until when the key lives, the
-- start of the window of the last call, which lies in the future while that call waits for its turn, and the permits
-- taken in it.

local FORMAT, SIZE, MARK = '<Bdddd', 33, 0xb1

-- One call for each key: the same as below in one piece, as long as nothing is out of the ordinary.
local reply, done, found = { 0, 0, 0 }, 0, nil
if #ARGV[1] == 40 + 32 * #KEYS then
  local keys, argument, call, pack, unpack = KEYS, ARGV[1], redis.call, struct.pack, struct.unpack
  local subjects, permits, window, _, _, next = unpack('<ddddd', argument)
  while done < subjects and subjects == #keys do
    local key, count, cost, longest_wait = keys[done + 1]
    _, count, cost, longest_wait, next = unpack('<dddd', argument, next)
    found = redis.pcall('GET', key)
    local mark, seen, lives, start, position = MARK, 0, 0, 0, 0
    if found then
      mark = 0
      if #found == SIZE then mark, seen, lives, start, position = unpack(FORMAT, found) end
    end
    if mark ~= MARK or seen > time or start > time or cost > permits then break end
    if count > 1 or cost == 0 or longest_wait < 0 then break end

    if position == 0 or time >= start + window then start, position = time, 0 end
    local reset_after, remaining = start + window - time, permits - position
    local answer = 0
    if cost <= remaining then
      remaining = remaining - cost
      if lives >= start + window then
        call('SET', key, pack(FORMAT, MARK, time, lives, start, position + cost), 'KEEPTTL')
      else
        local life = (reset_after + (-reset_after) % 1000) / 1000 + spare_life
        lives = time + life * 1000
        call('SET', key, pack(FORMAT, MARK, time, lives, start, position + cost), 'PX', life + margin)
      end
    elseif reset_after > longest_wait then
      answer = -2 - reset_after
      if remaining < 0 then remaining = 0 end
    else
      break
    end
    local filled = 3 * done
    reply[filled + 1], reply[filled + 2], reply[filled + 3] = answer, remaining, reset_after
    done, found = done + 1, nil
  end
  if done == #keys then return reply end
end

local function load(key)
  local value = found
  if value == nil then value = redis.pcall('GET', key) end
  found = nil
  if not value then return { seen = 0, start = 0, position = 0 } end
  if value.err then return nil, value end

  local mark, seen, _, start, position
  if #value == SIZE then mark, seen, _, start, position = struct.unpack(FORMAT, value) end
  if mark ~= MARK then
    return nil, redis.error_reply('WRONGSTATE a key holds something that is not the state of a fixed_window')
  end
  return { seen = seen, start = start, position = position }
end

local function save(key, state, lives, life)
  redis.call('SET', key, struct.pack(FORMAT, MARK, state.seen, lives, state.start, state.position), 'PX', life)
end

local function rewind(state, _, by)
  state.start = math.max(0, state.start - by)
end

local function earliest(state, terms, now, cost)
  if cost > terms.permits then return nil end
  local start, position = state.start, state.position
  local stop = start + terms.window
  if position == 0 or now >= stop then
    --  start |== window ==|      now: a new window starts
    return now
  elseif cost == 0 or cost <= terms.permits - position then
    --  start |== now ==| stop, or now before start: there is room in this window
    return now > start and now or start
  else
    --  start |== now ==| stop: full, so the next window starts where this one ends
    return stop
  end
end

local function take(state, terms, at, cost)
  if state.position == 0 or at >= state.start + terms.window then
    state.start, state.position = at, cost
  else
    state.position = state.position + cost
  end
end

-- Takes as many more of these calls as can go at once, after one that did. Says how many, and how much longer it takes
-- with each until all permits are back.
local function take_more(state, terms, _, cost, most)
  local room = terms.permits - state.position
  local more = math.min(most, (room - room % cost) / cost)
  state.position = state.position + more * cost
  return more, 0
end

local function standing(state, terms, now)
  local start, position = state.start, state.position
  local stop = start + terms.window
  if position == 0 or now >= stop then
    return terms.permits, 0
  elseif now < start or position > terms.permits then
    -- More than there are: a redeploy lowered the quota.
    return 0, stop - now
  else
    return terms.permits - position, stop - now
  end
end
