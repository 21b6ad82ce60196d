-- Decides calls of several keys, those of one key in order, against all quotas of their rule: the twin of `decide` in
-- mod.rs.
--
-- It runs after the clock (lua.rs), which gives `time`, `spare_life` and `margin`, and after a room, which gives
-- `load`, `earliest`, `take`, `take_more`, `standing`, `rewind` and `save`. Before those, a room may have decided about
-- the first keys itself: they are `done`, with their part of the `reply`. One call for a key under one quota, as most
-- are, needs none of the functions, which a script makes anew each time it runs.
--
-- KEYS   for each key one for each quota; all of a key in one slot.
-- ARGV   one string of doubles: how many keys; for each quota permits, window, capacity, sample; then for each key how
--        many runs of calls, and for each run how many calls, the cost and the longest wait of each. Times are whole
--        microseconds. A call with a negative wait is never admitted: it only looks.
-- Reply  for each call: the delay of an allowed one, -2 less the time to retry after of an exceeded one, -1 for one that
--        is too costly; permits that remain; time until all are back; and where there are several quotas the one that
--        had the last word, counted from 0. For a run of several calls the same about each part of it whose calls fare
--        alike: how many they are, those numbers about the first, and how much longer with each further one it takes
--        until all are back; if they are allowed, with each its cost remains less. For a key that holds something that
--        is not a state there is one error instead, WRONGSTATE or WRONGTYPE, and the key is left as it is.
--
-- Every state remembers when it was written. A time up to LAG older than that counts as that time. A still older one
-- means that the clock was stepped back: the states move back with it, as if no time had passed since they were
-- written, and are saved even if no call takes anything, so that it happens once. Otherwise, what takes nothing writes
-- nothing. Every state is saved with a life that ends when all its permits are back, and a little later: what is called
-- often keeps the life it has for a while, which takes half the time of giving it a new one.
--
-- Numbers are doubles, exact up to 2^53. The caller (lua.rs, terms.rs) keeps permits and costs below 2^53, waits at
-- 2^50 and the time that fills a bucket at 2^51, so that no time gets past 2^53 before the year 2148. They are packed as
-- such, which takes a fraction of the time of writing and reading them as text.

local LAG = 1000000

local keys, argument = KEYS, ARGV[1]
local subjects, position = struct.unpack('<d', argument)
local quotas, terms, filled = #keys / subjects, {}, 3 * done
for i = 1, quotas do
  local quota = {}
  quota.permits, quota.window, quota.capacity, quota.sample, position = struct.unpack('<dddd', argument, position)
  terms[i] = quota
end
-- What a room made room for is not there if it did nothing.
if done == 0 then reply = {} end
-- Behind the keys that are done, of which each has one run.
position = position + 32 * done

-- The latest of the earliest times of all quotas, and which quota has it; no time where that quota can never pay.
local function latest(states, now, cost)
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
local function stand(states, now)
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

for first = done, #keys - 1, quotas do
  local states, refused = {}, nil
  local now, stepped_back = time, false
  for i = 1, quotas do
    local state, wrong = load(keys[first + i], terms[i])
    if not state then
      refused = wrong
      break
    end
    local seen = state.seen
    if seen > time + LAG then
      stepped_back = true
    elseif seen > now then
      now = seen
    end
    states[i] = state
  end

  if refused then
    filled = filled + 1
    reply[filled] = refused
  else
    for i = 1, quotas do
      local state = states[i]
      if state.seen > now then
        rewind(state, terms[i], state.seen - now)
        state.rewound = true
      end
      state.seen = now
    end
  end

  -- What was found for one call holds for the next as long as nothing is taken: a crowd that is rejected costs one look.
  local turn, last_word, remaining, reset_after, known_cost
  local runs, taken
  runs, position = struct.unpack('<d', argument, position)
  for _ = 1, runs do
    local count, cost, longest_wait
    count, cost, longest_wait, position = struct.unpack('<ddd', argument, position)
    local left = refused and 0 or count
    while left > 0 do
      if cost ~= known_cost then
        turn, last_word = latest(states, now, cost)
        known_cost = cost
      end
      -- Calls that take nothing change nothing for those behind them.
      local answer, alike, step = -1, left, 0
      if turn and turn - now > longest_wait then
        answer = now - turn - 2
      elseif turn then
        answer = turn - now
        if cost > 0 then
          for i = 1, quotas do
            take(states[i], terms[i], turn, cost)
          end
          taken, known_cost, remaining, alike = true, nil, nil, 1
        end
      end
      if not remaining then remaining, reset_after = stand(states, now) end
      if count > 1 then
        if not known_cost and quotas == 1 and answer == 0 and left > 1 then
          local more
          more, step = take_more(states[1], terms[1], now, cost, left - 1)
          states[1].reset_after = reset_after + more * step
          alike = 1 + more
        end
        filled = filled + 1
        reply[filled] = alike
      end
      reply[filled + 1] = answer
      reply[filled + 2] = remaining
      reply[filled + 3] = reset_after
      filled = filled + 3
      if quotas > 1 then
        filled = filled + 1
        reply[filled] = last_word - 1
      end
      if count > 1 then
        filled = filled + 1
        reply[filled] = step
      end
      if not known_cost then remaining = nil end
      left = left - alike
    end
  end

  if taken or stepped_back then
    for i = 1, refused and 0 or quotas do
      local state = states[i]
      if taken or state.rewound then
        -- Rounded up to milliseconds: a state must never be forgotten early.
        local life = (state.reset_after + (-state.reset_after) % 1000) / 1000 + spare_life
        save(keys[first + i], state, now + life * 1000, life + margin, terms[i])
      end
    end
  end
end

return reply
