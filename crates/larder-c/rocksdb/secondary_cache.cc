#include "secondary_cache.h"

#include <rocksdb/utilities/object_registry.h>
#include <rocksdb/version.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>

#if ROCKSDB_MAJOR != 7 || ROCKSDB_MINOR != 8
#error "SecondaryCache differs between versions of RocksDB: this one is for 7.8"
#endif

namespace larder {

using rocksdb::Cache;
using rocksdb::SecondaryCache;
using rocksdb::SecondaryCacheResultHandle;
using rocksdb::Slice;
using rocksdb::Status;

namespace {

const char kScheme[] = "larder://";

/* Stands before the bytes of a block. RocksDB's form of a block in memory is no format with a promise: a file that was
 * filled by another version, or by another program, must not give blocks. */
const char kMark[] = {'L', 'r', 'd', 'B', 1, ROCKSDB_MAJOR, ROCKSDB_MINOR, 0};

/* So many blocks may wait for flash. They are copies beside the memory of the cache. */
const unsigned kInsertingMax = 32;

void Count(std::atomic<uint64_t>* counter) { counter->fetch_add(1, std::memory_order_relaxed); }

Status Refused(const std::string& what, const std::string& where) { return Status::InvalidArgument(what, where); }

/* "64M" and the like. */
bool ParseBytes(const std::string& text, uint64_t* bytes) {
  size_t at = 0;
  uint64_t number = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; at++) {
    if (__builtin_mul_overflow(number, uint64_t{10}, &number)) return false;
    if (__builtin_add_overflow(number, static_cast<uint64_t>(text[at] - '0'), &number)) return false;
  }
  if (at == 0 || number == 0) return false;
  if (at < text.size()) {
    const char units[] = "KMGT";
    const char* unit = std::strchr(units, text[at]);
    if (!unit || at + 1 != text.size()) return false;
    for (const char* each = units; each <= unit; each++) {
      if (__builtin_mul_overflow(number, uint64_t{1024}, &number)) return false;
    }
  }
  *bytes = number;
  return true;
}

}  // namespace

/* The outcome of a look-up. It may come later, from a thread of Larder's. */
class LarderSecondaryCache::Found final : public SecondaryCacheResultHandle {
 public:
  Found(const Cache::CreateCallback& create, Counters* counters) : create_(create), counters_(counters) {}

  /* Larder knows the address until it has told. */
  ~Found() override {
    Wait();
    larder_value_free(value_);
  }

  /* Called once. */
  void Tell(larder_status status, larder_value* value) {
    if (status != LARDER_OK && status != LARDER_NOT_FOUND) Count(&counters_->failed);
    std::lock_guard<std::mutex> lock(mutex_);
    value_ = value;
    told_ = true;
    /* Under the lock: without it, the other thread could be through with this object. */
    changed_.notify_all();
  }

  static void Told(void* context, larder_status status, larder_value* value) {
    static_cast<Found*>(context)->Tell(status, value);
  }

  bool IsReady() override {
    std::lock_guard<std::mutex> lock(mutex_);
    return told_;
  }

  /* Known to be a miss. */
  bool IsAbsent() {
    std::lock_guard<std::mutex> lock(mutex_);
    return told_ && !value_;
  }

  void Wait() override {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return told_; });
  }

  /* The object is the caller's. */
  void* Value() override {
    Create();
    return object_;
  }

  size_t Size() override {
    Create();
    return charge_;
  }

 private:
  /* In the thread that takes the object: nothing is lost if none takes it, and Larder's thread is not kept. */
  void Create() {
    Wait();
    if (!value_) return;
    const char* bytes = static_cast<const char*>(larder_value_data(value_));
    size_t length = larder_value_length(value_);
    if (length >= sizeof kMark && std::memcmp(bytes, kMark, sizeof kMark) == 0) {
      Status created = create_(bytes + sizeof kMark, length - sizeof kMark, &object_, &charge_);
      if (!created.ok()) object_ = nullptr;
    }
    if (!object_) charge_ = 0;
    Count(object_ ? &counters_->hits : &counters_->unusable);
    larder_value_free(value_);
    value_ = nullptr;
  }

  const Cache::CreateCallback create_;
  Counters* const counters_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool told_ = false;
  larder_value* value_ = nullptr;
  void* object_ = nullptr;
  size_t charge_ = 0;
};

Status LarderSecondaryCache::Parse(const std::string& uri, Options* options) {
  *options = Options();
  if (uri.compare(0, sizeof kScheme - 1, kScheme) != 0) return Refused("not larder://", uri);
  for (size_t at = sizeof kScheme - 1; at < uri.size();) {
    size_t end = std::min(uri.find(';', at), uri.size());
    std::string part = uri.substr(at, end - at);
    at = end + 1;
    size_t equals = part.find('=');
    std::string name = part.substr(0, equals);
    std::string value = equals == std::string::npos ? "" : part.substr(equals + 1);
    uint64_t* bytes = name == "flash" ? &options->flash_bytes : name == "memory" ? &options->memory_bytes : nullptr;
    if (name == "path" ? !options->path.empty() : bytes && *bytes) return Refused("given twice", name);
    if (name == "path" && !value.empty()) {
      options->path = value;
    } else if (!bytes) {
      return Refused("not path=FILE, flash=BYTES or memory=BYTES", part);
    } else if (!ParseBytes(value, bytes)) {
      return Refused("not a number of bytes such as 64M", part);
    }
  }
  if (options->memory_bytes == 0) options->memory_bytes = uint64_t{64} << 20;
  if (options->path.empty() != (options->flash_bytes == 0)) return Refused("path and flash belong together", uri);
  return Status::OK();
}

Status LarderSecondaryCache::Open(const Options& options, std::unique_ptr<LarderSecondaryCache>* opened) {
  const char* path = options.path.empty() ? nullptr : options.path.c_str();
  larder_cache* cache;
  larder_status status = larder_open(path, options.memory_bytes, options.flash_bytes, &cache);
  if (status == LARDER_IN_USE) return Status::Busy(larder_error_text());
  if (status != LARDER_OK) return Status::InvalidArgument(larder_error_text());
  opened->reset(new LarderSecondaryCache(options, cache));
  return Status::OK();
}

LarderSecondaryCache::~LarderSecondaryCache() { larder_close(cache_); }

std::string LarderSecondaryCache::GetPrintableOptions() const {
  return "    larder_version : " + std::string(larder_version()) + "\n    path : " + options_.path +
         "\n    flash : " + std::to_string(options_.flash_bytes) +
         "\n    memory : " + std::to_string(options_.memory_bytes) + "\n";
}

Status LarderSecondaryCache::Insert(const Slice& key, void* value, const Cache::CacheItemHelper* helper) {
  if (!value || !helper || !helper->size_cb || !helper->saveto_cb) return Refused("cannot be saved", "block");
  if (inserting_.load(std::memory_order_relaxed) >= kInsertingMax) {
    Count(&counters_.dropped);
    return Status::OK();
  }
  size_t size = helper->size_cb(value), length;
  if (__builtin_add_overflow(size, sizeof kMark, &length)) return Refused("too large", "block");
  std::unique_ptr<char[]> bytes(new (std::nothrow) char[length]);
  if (!bytes) return Status::MemoryLimit("a block does not fit");
  std::memcpy(bytes.get(), kMark, sizeof kMark);
  Status saved = helper->saveto_cb(value, 0, size, bytes.get() + sizeof kMark);
  if (!saved.ok()) return saved;
  inserting_.fetch_add(1, std::memory_order_relaxed);
  if (larder_set_async(cache_, key.data(), key.size(), bytes.get(), length, 0, Stored, this) != LARDER_OK) {
    inserting_.fetch_sub(1, std::memory_order_relaxed);
    return Status::InvalidArgument(larder_error_text());
  }
  return Status::OK();
}

void LarderSecondaryCache::Stored(void* context, larder_status status) {
  auto* cache = static_cast<LarderSecondaryCache*>(context);
  Count(status == LARDER_OK ? &cache->counters_.stored : &cache->counters_.dropped);
  cache->inserting_.fetch_sub(1, std::memory_order_relaxed);
}

std::unique_ptr<SecondaryCacheResultHandle> LarderSecondaryCache::Lookup(const Slice& key,
                                                                         const Cache::CreateCallback& create,
                                                                         bool wait, bool /*advise_erase*/,
                                                                         bool& is_in_sec_cache) {
  is_in_sec_cache = false;
  Count(&counters_.lookups);
  larder_value* value = nullptr;
  larder_status status = LARDER_OK;
  if (wait) {
    status = larder_get(cache_, key.data(), key.size(), &value);
    if (status == LARDER_NOT_FOUND) return nullptr;
  }
  std::unique_ptr<Found> found(new Found(create, &counters_));
  if (wait) {
    found->Tell(status, value);
    if (!found->Value()) return nullptr;
  } else {
    status = larder_get_async(cache_, key.data(), key.size(), Found::Told, found.get());
    /* Larder will not call back. */
    if (status != LARDER_OK) found->Tell(status, nullptr);
    if (found->IsAbsent()) return nullptr;
  }
  is_in_sec_cache = true;
  return found;
}

void LarderSecondaryCache::Erase(const Slice& key) { larder_delete(cache_, key.data(), key.size()); }

void LarderSecondaryCache::WaitAll(std::vector<SecondaryCacheResultHandle*> handles) {
  for (SecondaryCacheResultHandle* handle : handles) handle->Wait();
}

Status LarderSecondaryCache::GetCapacity(size_t& capacity) {
  capacity = options_.path.empty() ? options_.memory_bytes : options_.flash_bytes;
  return Status::OK();
}

SecondaryCacheCounts LarderSecondaryCache::Counts() const {
  return {counters_.lookups.load(), counters_.hits.load(),   counters_.unusable.load(),
          counters_.failed.load(),  counters_.stored.load(), counters_.dropped.load()};
}

namespace {

SecondaryCache* Make(const std::string& uri, std::unique_ptr<SecondaryCache>* made, std::string* error) {
  LarderSecondaryCache::Options options;
  std::unique_ptr<LarderSecondaryCache> cache;
  Status status = LarderSecondaryCache::Parse(uri, &options);
  if (status.ok()) status = LarderSecondaryCache::Open(options, &cache);
  if (!status.ok()) *error = status.ToString();
  *made = std::move(cache);
  return made->get();
}

/* When the library is loaded: a program that knows nothing of Larder can be given it by LD_PRELOAD. */
__attribute__((constructor)) void Register() {
  auto pattern = rocksdb::ObjectLibrary::PatternEntry("larder", false).AddSeparator("://");
  rocksdb::ObjectLibrary::Default()->AddFactory<SecondaryCache>(pattern, Make);
}

}  // namespace
}  // namespace larder
