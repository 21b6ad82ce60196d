-- token_bucket, and leaky_bucket: the twin of mod.rs. KEYS, ARGV and the reply are those of driver.lua.
--
-- State: one string, "seen whole fraction permits window". The level has fallen to nothing at the moment
-- `whole + fraction / permits`, in microseconds.
--
-- In Rust that moment is one 128-bit number of ticks times `permits`. Here it is kept in two parts, of which each is
-- exact: a permit weighs window / permits microseconds, permits is at most 2^26 (terms.rs), and so fraction * fraction
-- stays below 2^52.

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
local function at_new_rate(level, rate, terms)
  local permits, window = string.match(rate, '^([1-9]%d*) ([1-9]%d*)$')
  if not permits then return nil end
  local taken = level.whole - level.seen + level.fraction / permits
  local scale = permits / window * terms.window / terms.permits
  local whole = math.ceil(taken * scale * (1 + 2 ^ -48))
  level.whole, level.fraction = level.seen + math.max(0, math.min(whole, 2 ^ 51)), 0
  return level
end

local function load(key, terms, first)
  -- Permits and window stay text, since they seldom change.
  local rate = ARGV[first] .. ' ' .. ARGV[first + 1]
  local value = redis.call('GET', key)
  if not value then return { seen = 0, whole = 0, fraction = 0, rate = rate } end

  local seen, whole, fraction, old_rate = string.match(value, '^(%d+) (%d+) (%d+) (%d+ %d+)$')
  local level = seen and #value <= 84 and {
    seen = seen + 0,
    whole = whole + 0,
    fraction = fraction + 0,
    rate = rate,
  }
  if level and old_rate ~= rate then level = at_new_rate(level, old_rate, terms) end
  if not level then error(redis.error_reply('WRONGSTATE a key holds something that is not the level of a bucket')) end
  return level
end

local function save(key, level, life)
  local value = string.format('%d %d %d ', level.seen, level.whole, level.fraction) .. level.rate
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
