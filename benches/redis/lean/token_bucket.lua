-- token_bucket and leaky_bucket, and nothing else: one key, cost 1, nobody waits, any value is believed.
-- ARGV: the time one permit takes to come back in microseconds, the burst. State: when the bucket is full again, and until
-- when the key lives: a second longer than it has to, since to keep a life takes less than to give a new one.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local interval, burst = ARGV[1] + 0, ARGV[2] + 0
local value = redis.call('GET', KEYS[1])
local full, lives = now, 0
if value then full, lives = struct.unpack('<dd', value) end
if full < now then full = now end
full = full + interval
local spare = burst * interval - (full - now)
if spare < 0 then return { 1, -spare, 0, full - interval - now } end
if lives >= full then
  redis.call('SET', KEYS[1], struct.pack('<dd', full, lives), 'KEEPTTL')
else
  local life = (full - now + (now - full) % 1000) / 1000 + 1000
  redis.call('SET', KEYS[1], struct.pack('<dd', full, now + life * 1000), 'PX', life)
end
return { 0, 0, (spare - spare % interval) / interval, full - now }
