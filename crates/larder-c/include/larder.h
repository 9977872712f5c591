/* Larder, a flash cache, for C and C++. Made from crates/larder-c by cbindgen: cargo xtask c --write.
 *
 * A cache keeps hot objects in memory and the rest in a file. Any number of threads may use one. It may drop any object
 * at any time to make room, and never returns a wrong value.
 *
 * Bytes are pointers with lengths; keys have up to 65,535 bytes. Handles are those that these functions return, until
 * they are closed or freed. Callbacks may come from another thread. */

#ifndef LARDER_H
#define LARDER_H

#include <stddef.h>
#include <stdint.h>

/*
 How a call ended.
 */
typedef enum larder_status {
  /*
   It was done.
   */
  LARDER_OK = 0,
  /*
   There is no value.
   */
  LARDER_NOT_FOUND = 1,
  /*
   An argument is wrong: `larder_error_text` says which.
   */
  LARDER_INVALID = 2,
  /*
   The file is in use by another cache or process.
   */
  LARDER_IN_USE = 3,
  /*
   The device failed.
   */
  LARDER_DEVICE = 4,
  /*
   There is no room now: values in use pin the memory, or flash is slow. Try later.
   */
  LARDER_BUSY = 5,
  /*
   Anything else.
   */
  LARDER_FAILED = 6,
} larder_status;

/*
 A cache, and the thread that gives later answers.
 */
typedef struct larder_cache larder_cache;

/*
 A value that was found. It stays as it was, also when its key gets another value.
 */
typedef struct larder_value larder_value;

/*
 Called once with the outcome of `larder_get_async`. On `LARDER_OK` the value is the callee's, to be freed with
 `larder_value_free`; otherwise it is NULL.
 */
typedef void (*larder_got)(void *context, enum larder_status status, struct larder_value *value);

/*
 Called once with the outcome of `larder_set_async`.
 */
typedef void (*larder_done)(void *context, enum larder_status status);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Opens a cache.

 `path` is the file for flash, which is created, or opened with what is in it; NULL is a cache in memory only.
 `memory_bytes` is the memory for objects; 0 is the default, 64 MiB. `flash_bytes` is the size of the file, a
 multiple of 4096. On `LARDER_OK`, `*cache` is the cache, to be closed with `larder_close`; otherwise it is NULL.

 A file belongs to one process: another gets `LARDER_IN_USE`. Do not use a cache in a forked child.
 */
enum larder_status larder_open(const char *path,
                               uint64_t memory_bytes,
                               uint64_t flash_bytes,
                               struct larder_cache **cache);

/*
 Looks up a key. On `LARDER_OK`, `*value` is the value, to be freed with `larder_value_free`; otherwise it is NULL.
 `LARDER_NOT_FOUND`: there is none. It waits for flash if it has to.
 */
enum larder_status larder_get(const struct larder_cache *cache,
                              const void *key,
                              size_t key_length,
                              struct larder_value **value);

/*
 Stores a value, which is copied. `ttl_ms` is its lifetime in milliseconds; 0 is for ever.
 */
enum larder_status larder_set(const struct larder_cache *cache,
                              const void *key,
                              size_t key_length,
                              const void *value,
                              size_t value_length,
                              uint64_t ttl_ms);

/*
 Deletes a key. `LARDER_NOT_FOUND`: there was none.
 */
enum larder_status larder_delete(const struct larder_cache *cache,
                                 const void *key,
                                 size_t key_length);

/*
 As `larder_get`, without a wait: `done` gets the outcome. What memory answers is told before this function returns,
 by the same thread; what has to be read from flash is told later, by a thread of the library, one at a time. `done`
 must not close the cache. On any status but `LARDER_OK` it was not and will not be called.
 */
enum larder_status larder_get_async(const struct larder_cache *cache,
                                    const void *key,
                                    size_t key_length,
                                    larder_got done,
                                    void *context);

/*
 As `larder_set`, without a wait: see `larder_get_async`. Key and value are copied before it returns.
 */
enum larder_status larder_set_async(const struct larder_cache *cache,
                                    const void *key,
                                    size_t key_length,
                                    const void *value,
                                    size_t value_length,
                                    uint64_t ttl_ms,
                                    larder_done done,
                                    void *context);

/*
 Waits until all outcomes of `larder_get_async` and `larder_set_async` were told.
 */
enum larder_status larder_wait(const struct larder_cache *cache);

/*
 Writes what only memory holds to the file, and frees the cache, whatever is returned. No other thread may use it any
 more. Waits for all outcomes that were not told yet. NULL is `LARDER_OK`.

 A callback must not call it. In one of the library's thread it is refused with `LARDER_INVALID`, and the cache stays
 open.
 */
enum larder_status larder_close(struct larder_cache *cache);

/*
 The bytes of a value, valid until it is freed. NULL for NULL.
 */
const void *larder_value_data(const struct larder_value *value);

/*
 The length of a value in bytes. 0 for NULL.
 */
size_t larder_value_length(const struct larder_value *value);

/*
 Frees a value. Values pin memory of the cache: free them soon. A value may be freed after the cache was closed. NULL
 is allowed.
 */
void larder_value_free(struct larder_value *value);

/*
 What went wrong in the last call of this thread that failed: valid until the next such call. Never NULL.
 */
const char *larder_error_text(void);

/*
 The version of the library.
 */
const char *larder_version(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* LARDER_H */
