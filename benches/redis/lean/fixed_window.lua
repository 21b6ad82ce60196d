-- fixed_window, and nothing else: one key, cost 1, nobody waits, any value is believed.
-- ARGV: permits, window in microseconds. State: when the window ends, and what was taken in it.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local permits = ARGV[1] + 0
local value = redis.call('GET', KEYS[1])
local stop, taken = 0, 0
if value then stop, taken = struct.unpack('<dd', value) end
if stop <= now then
  stop, taken = now + ARGV[2], 1
  redis.call('SET', KEYS[1], struct.pack('<dd', stop, taken), 'PX', (stop - now + (now - stop) % 1000) / 1000)
else
  if taken >= permits then return { 1, stop - now, 0, stop - now } end
  taken = taken + 1
  redis.call('SET', KEYS[1], struct.pack('<dd', stop, taken), 'KEEPTTL')
end
return { 0, 0, permits - taken, stop - now }
