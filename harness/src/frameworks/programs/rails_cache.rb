# Rails' cache: RedisCacheStore, or MemCacheStore by Dalli. A line a feature: "ok WHAT", or "not ok WHAT -- why".
require "socket"
require "timeout"
require "active_support"
require "active_support/cache"
require "active_support/notifications"

KIND, PORT = ARGV[0], Integer(ARGV[1])
IS_RESP = KIND == "resp"
require IS_RESP ? "redis" : "dalli"
puts "version activesupport #{ActiveSupport.version}"
puts IS_RESP ? "version redis-rb #{Redis::VERSION}" : "version dalli #{Dalli::VERSION}"
$stdout.sync = true

def store(**options)
  return ActiveSupport::Cache::MemCacheStore.new("127.0.0.1:#{PORT}", **options) unless IS_RESP
  database = options.delete(:database) || 0
  handler = ->(method:, returning:, exception:) { raise exception }
  url = "redis://127.0.0.1:#{PORT}/#{database}"
  ActiveSupport::Cache::RedisCacheStore.new(url: url, error_handler: handler, **options)
end

def feature(name, runs: true)
  return unless runs
  Timeout.timeout(30) do
    TCPSocket.open("127.0.0.1", PORT) do |socket|
      socket.write(IS_RESP ? "FLUSHALL\r\n" : "flush_all\r\n")
      raise "flush" unless socket.gets.include?("OK")
    end
    yield
  end
  puts "ok #{name}"
rescue Exception => error
  puts "not ok #{name} -- #{error.class}: #{error.message.split.join(' ')[0, 200]}"
end

def equal(found, wanted)
  raise "#{found.inspect} instead of #{wanted.inspect}" unless found == wanted
end

cache = store

feature("write, read, exist?, delete, unless_exist") do
  [{ "a" => [1, nil] }, "text", "\x00\xff".b, 7].each do |value|
    cache.write("k", value)
    equal cache.read("k"), value
  end
  equal [cache.write("k", 1, unless_exist: true), cache.write("new", 1, unless_exist: true)].map { |it| !!it }, [false, true]
  equal [cache.exist?("k"), !!cache.delete("k"), cache.exist?("k"), cache.read("k")], [true, true, false, nil]
end

feature("fetch: the block runs once; nil; race_condition_ttl") do
  runs = 0
  equal 3.times.map { cache.fetch("k", expires_in: 60) { runs += 1 } }, [1, 1, 1]
  equal cache.fetch("k", force: true) { 9 }, 9
  cache.fetch("nil", skip_nil: true) { nil }
  equal cache.exist?("nil"), false
  cache.write("r", "old", expires_in: 1, race_condition_ttl: 10)
  sleep 1.2
  found = cache.fetch("r", expires_in: 1, race_condition_ttl: 10) { [cache.read("r"), "new"] }
  equal found, ["old", "new"]
end

feature("expires_in") do
  cache.write("short", 1, expires_in: 1)
  cache.write("long", 1, expires_in: 60)
  equal cache.read("short"), 1
  sleep 2.1
  equal [cache.read("short"), cache.read("long")], [nil, 1]
end

feature("read_multi, write_multi, fetch_multi, delete_multi") do
  pairs = 100.times.to_h { |number| ["k#{number}", number] }
  cache.write_multi(pairs, expires_in: 60)
  equal cache.read_multi(*pairs.keys, "none"), pairs
  equal cache.fetch_multi("k1", "n1") { |name| "made #{name}" }, { "k1" => 1, "n1" => "made n1" }
  cache.delete_multi(pairs.keys.drop(1))
  equal cache.read_multi(*pairs.keys), { "k0" => 0 }
end

feature("increment, 8 threads; decrement") do
  IS_RESP ? cache.increment("n", 0) : cache.write("n", 0, raw: true)
  8.times.map { Thread.new { mine = store; 200.times { mine.increment("n") } } }.each(&:join)
  equal [cache.decrement("n", 600), cache.read("n", raw: true).to_i], [1000, 1000]
end

feature("increment with a lifetime", runs: IS_RESP) do
  2.times { cache.increment("n", 2, expires_in: 60) }
  equal [cache.read("n", raw: true), cache.redis.with { |c| c.ttl("n").between?(50, 60) }], ["4", true]
end

feature("delete_matched", runs: IS_RESP) do
  cache.write_multi(200.times.to_h { |number| ["a#{number}", number] })
  cache.write("b", 1)
  cache.delete_matched("a*")
  equal [cache.read("a7"), cache.read("a199"), cache.read("b")], [nil, nil, 1]
end

feature("namespace; clear of a namespace leaves another", runs: IS_RESP) do
  one, other = store(namespace: "one"), store(namespace: "other")
  one.write("k", 1)
  other.write("k", 2)
  one.clear
  equal [one.read("k"), other.read("k")], [nil, 2]
end

feature("clear of database 1 leaves database 0", runs: IS_RESP) do
  other = store(database: 1)
  cache.write("k", 0)
  other.write("k", 1)
  other.clear
  equal [cache.read("k"), other.read("k")], [0, nil]
end

feature("compression, versions, clear") do
  cache.write("long", "x" * 100_000, compress: true)
  cache.write("v", 1, version: 1)
  equal [cache.read("long") == "x" * 100_000, cache.read("v", version: 2), cache.read("long").size], [true, nil, 100_000]
  cache.clear
  equal cache.read("long"), nil
end
