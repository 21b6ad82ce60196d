-- Decides several calls of one key in order, against all quotas of its rule: the twin of `decide` in mod.rs.
--
-- It runs after the clock (lua.rs), which gives `now`, `arguments` and `spare_life`, and after a room, which gives
-- `load`, `earliest`, `take`, `standing`, `rewind` and `save`.
--
-- KEYS   one for each quota, all in one slot.
-- ARGV   for each quota: permits, window, capacity, sample; then for each call: cost, longest wait. Times are whole
--        microseconds. A call with a negative wait is never admitted: it only looks.
-- Reply  now, as the decisions saw it; then for each call: verdict (0 allowed, 1 exceeded, 2 too costly), time (the delay
--        of an allowed one, the time to retry after of an exceeded one, else 0), the quota that had the last word
--        (counted from 0), permits that remain, time until all are back.
-- Error  WRONGSTATE (or WRONGTYPE) where a key holds something that is not a state. It is left as it is.
--
-- Every state remembers when it was written. A time up to LAG older than that counts as that time. A still older one
-- means that the clock was stepped back: the states move back with it, as if no time had passed since they were
-- written, and are saved even if no call takes anything, so that it happens once. Otherwise, what takes nothing writes
-- nothing. Every state is saved with a life that ends when all its permits are back.
--
-- Numbers are doubles, exact up to 2^53. The caller (lua.rs, terms.rs) keeps permits and costs below 2^53, waits at
-- 2^50 and the time that fills a bucket at 2^51, so that no time gets past 2^53 before the year 2148. `text + 0` is its
-- number, for half the price of `tonumber(text)`.

local LAG = 1000000

local keys, argv, quotas = KEYS, ARGV, #KEYS
local terms, states = {}, {}

local newest, stepped_back = now, false
for i = 1, quotas do
  local first = 4 * i - 3
  local quota = {
    permits = argv[first] + 0,
    window = argv[first + 1] + 0,
    capacity = argv[first + 2] + 0,
    sample = argv[first + 3] + 0,
  }
  local state = load(keys[i], quota, first)
  local seen = state.seen
  if seen > now + LAG then
    stepped_back = true
  elseif seen > newest then
    newest = seen
  end
  terms[i], states[i] = quota, state
end
now = newest

for i = 1, quotas do
  local state = states[i]
  if state.seen > now then
    rewind(state, terms[i], state.seen - now)
    state.rewound = true
  end
  state.seen = now
end

-- The latest of the earliest times of all quotas, and which quota has it; no time where that quota can never pay.
local function latest(cost)
  local turn, last_word = now, 1
  for i = 1, quotas do
    local earliest_turn = earliest(states[i], terms[i], now, cost)
    if not earliest_turn then
      return nil, i
    elseif earliest_turn > turn then
      turn, last_word = earliest_turn, i
    end
  end
  return turn, last_word
end

-- The fewest permits that remain, the longest time until all are back.
local function stand()
  local fewest, longest
  for i = 1, quotas do
    local state = states[i]
    local remaining, reset_after = standing(state, terms[i], now)
    state.reset_after = reset_after
    if i == 1 then
      fewest, longest = remaining, reset_after
    else
      if remaining < fewest then fewest = remaining end
      if reset_after > longest then longest = reset_after end
    end
  end
  return fewest, longest
end

-- What was found for one call holds for the next as long as nothing is taken: a crowd that is rejected costs one look.
local turn, last_word, remaining, reset_after, known_cost
-- With room for the one call that is most often alone.
local reply, filled, taken = { now, 0, 0, 0, 0, 0 }, 1, false
for argument = 4 * quotas + 1, arguments, 2 do
  local cost, longest_wait = argv[argument] + 0, argv[argument + 1] + 0
  if cost ~= known_cost then
    turn, last_word = latest(cost)
    known_cost = cost
  end
  local verdict, time
  if not turn then
    verdict, time = 2, 0
  elseif turn - now > longest_wait then
    verdict, time = 1, turn - now
  else
    verdict, time = 0, turn - now
    if cost > 0 then
      for i = 1, quotas do
        take(states[i], terms[i], turn, cost)
      end
      taken, known_cost, remaining = true, nil, nil
    end
  end
  if not remaining then remaining, reset_after = stand() end
  reply[filled + 1] = verdict
  reply[filled + 2] = time
  reply[filled + 3] = last_word - 1
  reply[filled + 4] = remaining
  reply[filled + 5] = reset_after
  filled = filled + 5
end

if taken or stepped_back then
  for i = 1, quotas do
    local state = states[i]
    if taken or state.rewound then
      -- Rounded up to milliseconds, and one more: a state must never be forgotten early.
      local life = (state.reset_after + (-state.reset_after) % 1000) / 1000 + 1 + spare_life
      save(keys[i], state, life)
    end
  end
end

return reply
