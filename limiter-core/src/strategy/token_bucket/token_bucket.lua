-- token_bucket, and leaky_bucket: the twin of mod.rs. KEYS, ARGV and the reply are those of driver.lua.
--
-- State: a byte that no text begins with, then as doubles when it was written (`seen`), until when the key lives,
-- `whole`, `fraction`, and the permits and window it was written under. The level has fallen to nothing at the moment
-- `whole + fraction / permits`, in microseconds. Where a permit weighs a whole number of them, which leaves no fraction,
-- and permits is 1, both are left out.
--
-- In Rust that moment is one 128-bit number of ticks times `permits`. Here it is kept in two parts, of which each is
-- exact: a permit weighs window / permits microseconds, permits is at most 2^26 (terms.rs), and so fraction * fraction
-- stays below 2^52.

local FORMAT, SIZE, MARK = '<Bdddddd', 49, 0xb2
local WHOLE_FORMAT, WHOLE_SIZE = '<Bdddd', 33

-- One call for each key, where a permit weighs a whole number of microseconds: the same as below in one piece, as long
-- as nothing is out of the ordinary.
local reply, done, found = { 0, 0, 0 }, 0, nil
if #ARGV[1] == 40 + 32 * #KEYS then
  local keys, argument, call, pack, unpack = KEYS, ARGV[1], redis.call, struct.pack, struct.unpack
  local subjects, permits, window, capacity, _, next = unpack('<ddddd', argument)
  while done < subjects and permits == 1 and subjects == #keys do
    local key, count, cost, longest_wait = keys[done + 1]
    _, count, cost, longest_wait, next = unpack('<dddd', argument, next)
    found = redis.pcall('GET', key)
    local mark, seen, lives, whole, old_window = MARK, 0, 0, time, window
    if found then
      mark = 0
      if #found == WHOLE_SIZE then mark, seen, lives, whole, old_window = unpack(WHOLE_FORMAT, found) end
    end
    if mark ~= MARK or seen > time or old_window ~= window then break end
    if count > 1 or cost == 0 or cost > capacity or longest_wait < 0 then break end

    if whole < time then whole = time end
    local spare = capacity * window - (whole - time)
    local answer = 0
    if cost * window <= spare then
      whole, spare = whole + cost * window, spare - cost * window
      if lives >= whole then
        call('SET', key, pack(WHOLE_FORMAT, MARK, time, lives, whole, window), 'KEEPTTL')
      else
        local life = (whole - time + (time - whole) % 1000) / 1000 + spare_life
        lives = time + life * 1000
        call('SET', key, pack(WHOLE_FORMAT, MARK, time, lives, whole, window), 'PX', life + margin)
      end
    elseif cost * window - spare > longest_wait then
      answer = spare - cost * window - 2
    else
      break
    end
    local filled = 3 * done
    reply[filled + 1] = answer
    reply[filled + 2] = spare > 0 and (spare - spare % window) / window or 0
    reply[filled + 3] = whole - time
    done, found = done + 1, nil
  end
  if done == #keys then return reply end
end

-- A cost as the time that it takes to drain: whole microseconds, and a fraction in parts of `permits`.
local function weight(cost, terms)
  local permits, window = terms.permits, terms.window
  if permits == 1 then return cost * window, 0 end
  local window_rest, cost_rest = window % permits, cost % permits
  local product = cost_rest * window_rest
  local fraction = product % permits
  local whole = cost * ((window - window_rest) / permits)
    + (cost - cost_rest) / permits * window_rest
    + (product - fraction) / permits
  return whole, fraction
end

-- A level written at another rate: what was taken stays taken, and comes back at the rate of today. Rounded up, by more
-- than doubles can lose.
local function at_new_rate(level, permits, window, terms)
  local taken = level.whole - level.seen + level.fraction / permits
  local scale = permits / window * terms.window / terms.permits
  local whole = math.ceil(taken * scale * (1 + 2 ^ -48))
  level.whole, level.fraction = level.seen + math.max(0, math.min(whole, 2 ^ 51)), 0
end

local function load(key, terms)
  local value = found
  if value == nil then value = redis.pcall('GET', key) end
  found = nil
  if not value then return { seen = 0, whole = 0, fraction = 0 } end
  if value.err then return nil, value end

  local mark, seen, _, whole, window
  local fraction, permits = 0, 1
  if #value == WHOLE_SIZE then
    mark, seen, _, whole, window = struct.unpack(WHOLE_FORMAT, value)
  elseif #value == SIZE then
    mark, seen, _, whole, fraction, permits, window = struct.unpack(FORMAT, value)
  end
  if mark ~= MARK then
    return nil, redis.error_reply('WRONGSTATE a key holds something that is not the level of a bucket')
  end
  local level = { seen = seen, whole = whole, fraction = fraction }
  if permits ~= terms.permits or window ~= terms.window then at_new_rate(level, permits, window, terms) end
  return level
end

local function save(key, level, lives, life, terms)
  local permits, window, value = terms.permits, terms.window, nil
  if permits == 1 then
    value = struct.pack(WHOLE_FORMAT, MARK, level.seen, lives, level.whole, window)
  else
    value = struct.pack(FORMAT, MARK, level.seen, lives, level.whole, level.fraction, permits, window)
  end
  redis.call('SET', key, value, 'PX', life)
end

local function rewind(level, _, by)
  level.whole = level.whole - by
end

local function earliest(level, terms, now, cost)
  if cost > terms.capacity then return nil end
  -- The moment at which the level has fallen enough for the cost to fit in. Rounded up, so that it truly has.
  local whole, fraction = weight(terms.capacity - cost, terms)
  local at = level.whole - whole
  if level.fraction > fraction then at = at + 1 end
  return at > now and at or now
end

local function take(level, terms, at, cost)
  local cost_whole, cost_fraction = weight(cost, terms)
  local whole, fraction = level.whole, level.fraction
  if whole < at then whole, fraction = at, 0 end
  whole, fraction = whole + cost_whole, fraction + cost_fraction
  if fraction >= terms.permits then whole, fraction = whole + 1, fraction - terms.permits end
  level.whole, level.fraction = whole, fraction
end

-- Takes as many more of these calls as can go at once, after one that did. Says how many, and how much longer it takes
-- with each until all permits are back.
local function take_more(level, terms, now, cost, most)
  -- Rounded up, the time would not grow evenly.
  if terms.permits > 1 then return 0, 0 end
  local weighs = cost * terms.window
  local room = terms.capacity * terms.window - (level.whole - now)
  local more = math.min(most, (room - room % weighs) / weighs)
  level.whole = level.whole + more * weighs
  return more, weighs
end

-- How many permits weigh no more than this.
local function permits_in(whole, fraction, terms)
  local scaled = whole * terms.permits + fraction
  local count = (scaled - scaled % terms.window) / terms.window
  if scaled < 2 ^ 53 then return count end
  -- Rounded somewhere on the way: a guess, which the exact weights put right.
  count = math.floor(scaled / terms.window)
  local function fits(cost)
    local cost_whole, cost_fraction = weight(cost, terms)
    return cost_whole < whole or cost_whole == whole and cost_fraction <= fraction
  end
  while not fits(count) do count = count - 1 end
  while fits(count + 1) do count = count + 1 end
  return count
end

local function standing(level, terms, now)
  if level.whole < now then return terms.capacity, 0 end
  local whole, fraction = level.whole - now, level.fraction
  local reset_after = fraction > 0 and whole + 1 or whole

  local spare_whole, spare_fraction = weight(terms.capacity, terms)
  spare_whole, spare_fraction = spare_whole - whole, spare_fraction - fraction
  if spare_fraction < 0 then spare_whole, spare_fraction = spare_whole - 1, spare_fraction + terms.permits end
  if spare_whole < 0 then return 0, reset_after end
  return permits_in(spare_whole, spare_fraction, terms), reset_after
end
