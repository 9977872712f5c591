/* LarderSecondaryCache by itself, and below a RocksDB whose block cache is too small: cargo xtask c runs it. */
#include <rocksdb/cache.h>
#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/statistics.h>
#include <rocksdb/table.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "secondary_cache.h"

using namespace rocksdb;
using larder::LarderSecondaryCache;

#define CHECK(it)                                                  \
  do {                                                             \
    if (!(it)) {                                                   \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #it);     \
      exit(1);                                                     \
    }                                                              \
  } while (0)

namespace {

/* What the block cache would hold: a text. */
size_t SizeOf(void* object) { return static_cast<std::string*>(object)->size(); }

Status SaveTo(void* object, size_t offset, size_t length, void* out) {
  static_cast<std::string*>(object)->copy(static_cast<char*>(out), length, offset);
  return Status::OK();
}

Status CannotSave(void*, size_t, size_t, void*) { return Status::Corruption("on purpose"); }

void Delete(const Slice&, void* object) { delete static_cast<std::string*>(object); }

Status Create(const void* bytes, size_t length, void** object, size_t* charge) {
  *object = new std::string(static_cast<const char*>(bytes), length);
  *charge = length;
  return Status::OK();
}

Status CannotCreate(const void*, size_t, void**, size_t*) { return Status::Corruption("on purpose"); }

Cache::CacheItemHelper helper(SizeOf, SaveTo, Delete);

/* The text of a key, or "none". */
std::string Got(SecondaryCache* cache, const std::string& key, bool wait, Cache::CreateCallback create = Create) {
  bool kept = !wait;
  auto handle = cache->Lookup(key, create, wait, false, kept);
  CHECK(kept == (handle != nullptr));
  if (!handle) return "none";
  CHECK(!wait || handle->IsReady());
  cache->WaitAll({handle.get()});
  CHECK(handle->IsReady());
  std::unique_ptr<std::string> object(static_cast<std::string*>(handle->Value()));
  CHECK(handle->Size() == (object ? object->size() : 0));
  return object ? *object : "none";
}

std::shared_ptr<SecondaryCache> Opened(const std::string& uri) {
  std::shared_ptr<SecondaryCache> cache;
  Status status = SecondaryCache::CreateFromString(ConfigOptions(), uri, &cache);
  if (!status.ok()) fprintf(stderr, "%s\n", status.ToString().c_str());
  CHECK(status.ok() && cache);
  return cache;
}

larder::SecondaryCacheCounts CountsOf(const std::shared_ptr<SecondaryCache>& cache) {
  return static_cast<LarderSecondaryCache*>(cache.get())->Counts();
}

void Uris(const std::string& path) {
  for (const char* bad :
       {"larder://x", "larder://path=", "larder://path=/x", "larder://flash=1G", "larder://memory=",
        "larder://memory=64Q", "larder://memory=64MB", "larder://memory=-1", "larder://memory=0",
        "larder://memory=18446744073709551616", "larder://memory=18014398509481984K", "larder://memory=1M;memory=2M",
        "larder://path=/x;path=/y;flash=1G", "larder://memory=64M;;", "larder://memory=1",
        "larder://path=/no/such/directory/x;flash=1G"}) {
    std::shared_ptr<SecondaryCache> cache;
    Status status = SecondaryCache::CreateFromString(ConfigOptions(), bad, &cache);
    if (status.ok()) fprintf(stderr, "%s\n", bad);
    CHECK(!status.ok() && !cache);
  }
  LarderSecondaryCache::Options options;
  CHECK(LarderSecondaryCache::Parse("larder://path=/a=b c;flash=1G;memory=3K;", &options).ok());
  CHECK(options.path == "/a=b c" && options.flash_bytes == 1 << 30 && options.memory_bytes == 3 << 10);
  CHECK(!LarderSecondaryCache::Parse("other://memory=1M", &options).ok());

  auto cache = Opened("larder://path=" + path + ";flash=64M;memory=2M");
  std::shared_ptr<SecondaryCache> second;
  Status status = SecondaryCache::CreateFromString(ConfigOptions(), "larder://path=" + path + ";flash=64M", &second);
  CHECK(!status.ok() && status.ToString().find("in use") != std::string::npos);
  size_t capacity = 0;
  CHECK(cache->GetCapacity(capacity).ok() && capacity == 64 << 20);
  CHECK(cache->GetPrintableOptions().find(path) != std::string::npos);
  CHECK(std::string(cache->Name()) == "LarderSecondaryCache" && !cache->SupportForceErase());
}

std::string TextOf(int number) { return std::string(20000, static_cast<char>('a' + number % 26)); }

std::string KeyOf(int number) { return std::string("\0key", 4) + std::to_string(number); }

/* More than memory holds: look-ups read the file, of which many are under way at a time. */
void ManyAtOnce(LarderSecondaryCache* cache) {
  const int kMany = 300;
  for (int number = 0; number < kMany; number++) {
    std::string text = TextOf(number);
    uint64_t dropped;
    do {
      dropped = cache->Counts().dropped;
      CHECK(cache->Insert(KeyOf(number), &text, &helper).ok());
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    } while (cache->Counts().dropped > dropped);
  }
  std::vector<std::unique_ptr<SecondaryCacheResultHandle>> handles(kMany);
  std::vector<SecondaryCacheResultHandle*> asked;
  int waited = 0, found = 0;
  for (int number = 0; number < kMany; number++) {
    bool kept;
    handles[number] = cache->Lookup(KeyOf(number), Create, false, false, kept);
    if (!handles[number]) continue;
    if (!handles[number]->IsReady()) waited++;
    asked.push_back(handles[number].get());
  }
  cache->WaitAll(asked);
  for (int number = 0; number < kMany; number++) {
    if (!handles[number]) continue;
    std::unique_ptr<std::string> object(static_cast<std::string*>(handles[number]->Value()));
    if (object) found++;
    CHECK(!object || *object == TextOf(number));
  }
  /* Handles that are dropped without a wait. */
  for (int number = 0; number < kMany; number++) {
    bool kept;
    cache->Lookup(KeyOf(number), Create, false, false, kept);
  }
  printf("%d of %d found, %d later\n", found, kMany, waited);
  CHECK(found > kMany / 2 && waited > 0);
}

void Alone(const std::string& path) {
  const std::string uri = "larder://path=" + path + ";flash=64M;memory=2M";
  auto cache = Opened(uri);
  for (bool wait : {true, false}) {
    std::string one = "rye", none;
    CHECK(Got(cache.get(), "bread", wait) == "none");
    CHECK(cache->Insert("bread", &one, &helper).ok());
    CHECK(Got(cache.get(), "bread", wait) == "rye");
    CHECK(Got(cache.get(), "bread", wait, CannotCreate) == "none");
    CHECK(cache->Insert("empty", &none, &helper).ok());
    CHECK(Got(cache.get(), "empty", wait) == "");
    cache->Erase("bread");
    CHECK(Got(cache.get(), "bread", wait) == "none");
    cache->Erase("bread");
    Cache::CacheItemHelper failing(SizeOf, CannotSave, Delete), without;
    CHECK(cache->Insert("bread", &one, &failing).IsCorruption());
    CHECK(!cache->Insert("bread", &one, &without).ok() && !cache->Insert("bread", &one, nullptr).ok());
    /* A key that is too long: not stored, as a block for which there is no room. */
    CHECK(cache->Insert(std::string(70000, 'k'), &one, &helper).ok());
    CHECK(Got(cache.get(), std::string(70000, 'k'), wait) == "none");
  }
  /* Larger than flash takes: it is not stored, and RocksDB reads it from its table. */
  std::string large(80 << 20, 'x');
  cache->Insert("large", &large, &helper);
  CHECK(Got(cache.get(), "large", true) == "none");
  ManyAtOnce(static_cast<LarderSecondaryCache*>(cache.get()));
  cache.reset();

  /* Another program has the file: values that are none of ours. */
  larder_cache* other;
  CHECK(larder_open(path.c_str(), 2 << 20, 64 << 20, &other) == LARDER_OK);
  larder_value* value;
  CHECK(larder_get(other, "empty", 5, &value) == LARDER_OK && larder_value_length(value) == 8);
  std::string mark(static_cast<const char*>(larder_value_data(value)), 8);
  larder_value_free(value);
  for (size_t length = 0; length < 8; length++) {
    CHECK(larder_set(other, mark.data(), length + 1, mark.data(), length, 0) == LARDER_OK);
  }
  std::string damaged = mark + "rye";
  damaged[6] ^= 1;
  CHECK(larder_set(other, "damaged", 7, damaged.data(), damaged.size(), 0) == LARDER_OK);
  CHECK(larder_close(other) == LARDER_OK);
  cache = Opened(uri);
  for (bool wait : {true, false}) {
    for (size_t length = 0; length < 8; length++) CHECK(Got(cache.get(), mark.substr(0, length + 1), wait) == "none");
    CHECK(Got(cache.get(), "damaged", wait) == "none");
    CHECK(Got(cache.get(), "empty", wait) == "");
  }
  CHECK(CountsOf(cache).unusable == 18 && CountsOf(cache).hits == 2 && CountsOf(cache).lookups == 20);
}

enum { kRows = 40000 };

std::string RowKey(int number) {
  char key[32];
  snprintf(key, sizeof key, "row-%08d", number);
  return key;
}

std::string RowValue(int number) {
  std::string value = std::to_string(number) + ":";
  while (value.size() < 200) value.push_back(static_cast<char>('a' + (number * 7 + value.size()) % 26));
  return value;
}

/* Reads rows in an order of its own, by Get and MultiGet. */
void ReadRows(DB* db, unsigned seed, int times) {
  for (int time = 0; time < times; time++) {
    int number = static_cast<int>(rand_r(&seed) % kRows);
    std::string value;
    CHECK(db->Get(ReadOptions(), RowKey(number), &value).ok() && value == RowValue(number));
    const size_t kBatch = 16;
    std::vector<std::string> names;
    std::vector<Slice> keys;
    for (size_t at = 0; at < kBatch; at++) names.push_back(RowKey((number + static_cast<int>(at) * 97) % kRows));
    for (const std::string& name : names) keys.emplace_back(name);
    PinnableSlice values[kBatch];
    Status statuses[kBatch];
    db->MultiGet(ReadOptions(), db->DefaultColumnFamily(), kBatch, keys.data(), values, statuses);
    for (size_t at = 0; at < kBatch; at++) {
      CHECK(statuses[at].ok() && values[at] == RowValue((number + static_cast<int>(at) * 97) % kRows));
    }
  }
}

struct Opening {
  std::shared_ptr<SecondaryCache> secondary;
  std::shared_ptr<Statistics> statistics = CreateDBStatistics();
  std::unique_ptr<DB> db;

  Opening(const std::string& path, const std::string& uri) : secondary(Opened(uri)) {
    LRUCacheOptions cache;
    cache.capacity = 256 << 10;
    cache.num_shard_bits = 1;
    cache.secondary_cache = secondary;
    BlockBasedTableOptions table;
    table.block_cache = NewLRUCache(cache);
    table.cache_index_and_filter_blocks = true;
    Options options;
    options.create_if_missing = true;
    options.compression = kNoCompression;
    options.statistics = statistics;
    options.table_factory.reset(NewBlockBasedTableFactory(table));
    DB* opened;
    CHECK(DB::Open(options, path, &opened).ok());
    db.reset(opened);
  }
};

void BelowRocksDb(const std::string& path) {
  const std::string uri = "larder://path=" + path + "-db-flash;flash=64M;memory=2M";
  {
    Opening first(path + "-db", uri);
    for (int number = 0; number < kRows; number++) {
      CHECK(first.db->Put(WriteOptions(), RowKey(number), RowValue(number)).ok());
    }
    CHECK(first.db->Flush(FlushOptions()).ok());
    CHECK(first.db->CompactRange(CompactRangeOptions(), nullptr, nullptr).ok());
    std::vector<std::thread> threads;
    for (unsigned seed = 1; seed <= 4; seed++) threads.emplace_back(ReadRows, first.db.get(), seed, 1000);
    for (std::thread& thread : threads) thread.join();
    auto counts = CountsOf(first.secondary);
    printf("%llu hits of %llu look-ups, %llu stored, %llu dropped\n", (unsigned long long)counts.hits,
           (unsigned long long)counts.lookups, (unsigned long long)counts.stored, (unsigned long long)counts.dropped);
    CHECK(counts.hits > counts.lookups / 2 && counts.unusable == 0 && counts.failed == 0);
    CHECK(first.statistics->getTickerCount(SECONDARY_CACHE_HITS) > 0);
  }
  Opening second(path + "-db", uri);
  ReadRows(second.db.get(), 1, 100);
  auto counts = CountsOf(second.secondary);
  printf("opened again: %llu hits of %llu look-ups\n", (unsigned long long)counts.hits,
         (unsigned long long)counts.lookups);
  CHECK(counts.hits > counts.lookups / 2 && counts.unusable == 0 && counts.failed == 0);
}

}  // namespace

int main(int count, char** words) {
  CHECK(count == 2);
  const std::string path = words[1];
  Uris(path + "-uris");
  Alone(path);
  BelowRocksDb(path);
  puts("passed");
  return 0;
}
