/* Larder as a secondary cache of RocksDB 7.8: it keeps the blocks that the block cache evicts, in memory and a file.
 *
 * RocksDB opens one by its URI, larder://path=/mnt/ssd/blocks;flash=64G;memory=1G, when this library is loaded.
 * Programs that open one themselves can also ask for its counts. */

#ifndef LARDER_ROCKSDB_SECONDARY_CACHE_H
#define LARDER_ROCKSDB_SECONDARY_CACHE_H

#include <rocksdb/secondary_cache.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "larder.h"

namespace larder {

/* What a cache was asked for since it was opened. */
struct SecondaryCacheCounts {
  uint64_t lookups;
  /* Look-ups that gave RocksDB a block. */
  uint64_t hits;
  /* Look-ups that found bytes of which no block could be made. */
  uint64_t unusable;
  /* Look-ups that failed: the device, or no memory. */
  uint64_t failed;
  /* Blocks that were stored. */
  uint64_t stored;
  /* Blocks that were not stored: flash was slow, memory was full, or the block is too large. */
  uint64_t dropped;
};

class LarderSecondaryCache : public rocksdb::SecondaryCache {
 public:
  /* What the URI says. Sizes are bytes, or have a suffix K, M, G or T. */
  struct Options {
    /* Empty: memory only. */
    std::string path;
    uint64_t flash_bytes = 0;
    /* 64 MiB if the URI does not say. */
    uint64_t memory_bytes = 0;
  };

  static rocksdb::Status Parse(const std::string& uri, Options* options);
  static rocksdb::Status Open(const Options& options, std::unique_ptr<LarderSecondaryCache>* opened);

  /* Writes what only memory holds to the file. */
  ~LarderSecondaryCache() override;
  LarderSecondaryCache(const LarderSecondaryCache&) = delete;
  LarderSecondaryCache& operator=(const LarderSecondaryCache&) = delete;

  static const char* kClassName() { return "LarderSecondaryCache"; }
  const char* Name() const override { return kClassName(); }
  std::string GetPrintableOptions() const override;

  /* Does not wait for flash. It drops the block if too many others wait for flash. */
  rocksdb::Status Insert(const rocksdb::Slice& key, void* value,
                         const rocksdb::Cache::CacheItemHelper* helper) override;

  std::unique_ptr<rocksdb::SecondaryCacheResultHandle> Lookup(const rocksdb::Slice& key,
                                                              const rocksdb::Cache::CreateCallback& create, bool wait,
                                                              bool advise_erase, bool& is_in_sec_cache) override;

  /* No: a block that RocksDB takes stays here too, so that flash need not be written again when it comes back. */
  bool SupportForceErase() const override { return false; }

  /* An insertion of this key that is still under way may end later. RocksDB's keys name bytes that do not change. */
  void Erase(const rocksdb::Slice& key) override;

  void WaitAll(std::vector<rocksdb::SecondaryCacheResultHandle*> handles) override;

  /* The bytes of the file, or of memory if there is no file. They cannot be changed. */
  rocksdb::Status GetCapacity(size_t& capacity) override;

  SecondaryCacheCounts Counts() const;

 private:
  struct Counters {
    std::atomic<uint64_t> lookups{0}, hits{0}, unusable{0}, failed{0}, stored{0}, dropped{0};
  };
  class Found;

  LarderSecondaryCache(const Options& options, larder_cache* cache) : options_(options), cache_(cache) {}
  static void Stored(void* context, larder_status status);

  const Options options_;
  larder_cache* const cache_;
  Counters counters_;
  /* Insertions that were not told yet. */
  std::atomic<unsigned> inserting_{0};
};

}  // namespace larder

#endif
