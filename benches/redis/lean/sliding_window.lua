-- sliding_window, and nothing else: one key, cost 1, nobody waits, any value is believed.
-- ARGV: permits, window and sample in microseconds. State: the sum of all counters, then for each, the oldest first,
-- when it opened and what was taken. Its permits are back one window after it closed.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local permits, sample = ARGV[1] + 0, ARGV[3] + 0
local life = ARGV[2] + sample
local value = redis.call('GET', KEYS[1])
local total, from, opened, count = 0, 9, now, 0
if value then
  total = struct.unpack('<d', value)
  opened, count = struct.unpack('<dd', value, from)
  while opened + life <= now do
    total, from = total - count, from + 16
    if from > #value then break end
    opened, count = struct.unpack('<dd', value, from)
  end
end
if total >= permits then return { 1, opened + life - now, 0, life } end
local older = ''
if total > 0 then
  opened, count = struct.unpack('<dd', value, #value - 15)
  if now - opened < sample then
    older = string.sub(value, from, -17)
  else
    older, opened, count = string.sub(value, from), now, 0
  end
else
  opened, count = now, 0
end
value = struct.pack('<d', total + 1) .. older .. struct.pack('<dd', opened, count + 1)
redis.call('SET', KEYS[1], value, 'PX', (opened + life - now + (now - opened - life) % 1000) / 1000)
return { 0, 0, permits - total - 1, opened + life - now }
