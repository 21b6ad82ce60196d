-- fixed_window: the twin of mod.rs. KEYS, ARGV and the reply are those of driver.lua.
--
-- State: one string, "seen start position". The window of the last call, which lies in the future while that call waits
-- for its turn, and the permits taken in it.

local function load(key)
  local value = redis.call('GET', key)
  if not value then return { seen = 0, start = 0, position = 0 } end

  local seen, start, position = string.match(value, '^(%d+) (%d+) (%d+)$')
  if not seen or #value > 50 then
    error(redis.error_reply('WRONGSTATE a key holds something that is not the state of a fixed_window'))
  end
  return { seen = seen + 0, start = start + 0, position = position + 0 }
end

local function save(key, state, life)
  redis.call('SET', key, string.format('%d %d %d', state.seen, state.start, state.position), 'PX', life)
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
