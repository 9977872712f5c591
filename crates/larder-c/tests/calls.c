/* Every function of larder.h, in memory and with a file: cargo xtask c runs it. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "larder.h"

#define CHECK(it)                                                             \
  do {                                                                        \
    if (!(it)) {                                                              \
      fprintf(stderr, "%s:%d: %s; %s\n", __FILE__, __LINE__, #it, larder_error_text()); \
      exit(1);                                                                \
    }                                                                         \
  } while (0)

enum { KEYS = 300, VALUE = 20000 };

static void key_of(int number, char *key) { sprintf(key, "key-%d", number); }

static void value_of(int number, unsigned char *value) {
  for (int at = 0; at < VALUE; at++) value[at] = (unsigned char)(number * 31 + at * 7);
}

/* What callbacks have seen. */
struct seen {
  pthread_mutex_t lock;
  larder_cache *cache;
  int found, absent, stored, others, wrong, refused;
};

struct asked {
  struct seen *seen;
  int number;
};

static void got(void *context, larder_status status, larder_value *value) {
  struct asked *asked = context;
  struct seen *seen = asked->seen;
  unsigned char wanted[VALUE];
  value_of(asked->number, wanted);
  pthread_mutex_lock(&seen->lock);
  if (status == LARDER_OK) {
    seen->found++;
    if (larder_value_length(value) != VALUE || memcmp(larder_value_data(value), wanted, VALUE)) seen->wrong++;
  } else if (status == LARDER_NOT_FOUND) {
    seen->absent++;
    if (value) seen->wrong++;
  } else {
    seen->others++;
  }
  pthread_mutex_unlock(&seen->lock);
  larder_value_free(value);
  free(asked);
}

static void done(void *context, larder_status status) {
  struct seen *seen = context;
  pthread_mutex_lock(&seen->lock);
  if (status == LARDER_OK) seen->stored++;
  pthread_mutex_unlock(&seen->lock);
}

static void basics(larder_cache *cache) {
  larder_value *value;
  CHECK(larder_get(cache, "bread", 5, &value) == LARDER_NOT_FOUND && !value);
  CHECK(larder_set(cache, "bread", 5, "rye", 3, 0) == LARDER_OK);
  CHECK(larder_get(cache, "bread", 5, &value) == LARDER_OK);
  CHECK(larder_value_length(value) == 3 && !memcmp(larder_value_data(value), "rye", 3));
  /* A value stays as it was. */
  CHECK(larder_set(cache, "bread", 5, "oat", 3, 0) == LARDER_OK);
  CHECK(!memcmp(larder_value_data(value), "rye", 3));
  larder_value_free(value);
  CHECK(larder_set(cache, "empty", 5, NULL, 0, 0) == LARDER_OK);
  CHECK(larder_get(cache, "empty", 5, &value) == LARDER_OK && larder_value_length(value) == 0);
  larder_value_free(value);
  CHECK(larder_delete(cache, "bread", 5) == LARDER_OK);
  CHECK(larder_delete(cache, "bread", 5) == LARDER_NOT_FOUND);
  CHECK(larder_get(cache, "bread", 5, &value) == LARDER_NOT_FOUND);
}

static void refusals(larder_cache *cache) {
  larder_value *value = (larder_value *)1;
  CHECK(larder_get(NULL, "k", 1, &value) == LARDER_INVALID && !value);
  CHECK(strstr(larder_error_text(), "cache is NULL"));
  CHECK(larder_get(cache, NULL, 1, &value) == LARDER_INVALID);
  CHECK(larder_get(cache, "", 0, &value) == LARDER_NOT_FOUND);
  CHECK(larder_get(cache, "k", 1, NULL) == LARDER_INVALID);
  CHECK(larder_set(cache, "k", 1, NULL, 1, 0) == LARDER_INVALID);
  CHECK(larder_get_async(cache, "k", 1, NULL, NULL) == LARDER_INVALID);
  CHECK(larder_set_async(cache, "k", 1, "v", 1, 0, NULL, NULL) == LARDER_INVALID);
  CHECK(larder_close(NULL) == LARDER_OK);
  larder_value_free(NULL);
  CHECK(!larder_value_data(NULL) && larder_value_length(NULL) == 0);
  larder_cache *other = (larder_cache *)1;
  CHECK(larder_open("/no/such/directory/cache", 0, 256 << 20, &other) == LARDER_INVALID && !other);
  CHECK(larder_open(NULL, 1, 0, &other) == LARDER_INVALID && !other);
  CHECK(strlen(larder_error_text()) > 0 && strlen(larder_version()) > 0);
}

static void ask(larder_cache *cache, struct seen *seen, int number) {
  char key[32];
  key_of(number, key);
  struct asked *asked = malloc(sizeof *asked);
  asked->seen = seen;
  asked->number = number;
  CHECK(larder_get_async(cache, key, strlen(key), got, asked) == LARDER_OK);
}

/* Values that memory has no room for are read from the file, by callbacks. */
static void later(larder_cache *cache, int reopened) {
  struct seen seen = {PTHREAD_MUTEX_INITIALIZER, cache, 0, 0, 0, 0, 0, 0};
  unsigned char value[VALUE];
  char key[32];
  if (!reopened) {
    for (int number = 0; number < KEYS; number++) {
      key_of(number, key);
      value_of(number, value);
      CHECK(larder_set_async(cache, key, strlen(key), value, VALUE, 0, done, &seen) == LARDER_OK);
    }
    CHECK(larder_wait(cache) == LARDER_OK);
    CHECK(seen.stored == KEYS);
  }
  for (int number = 0; number < KEYS + 10; number++) ask(cache, &seen, number);
  CHECK(larder_wait(cache) == LARDER_OK);
  printf("%d found, %d absent, %d others, %d wrong\n", seen.found, seen.absent, seen.others, seen.wrong);
  CHECK(seen.wrong == 0 && seen.others == 0);
  CHECK(seen.found >= KEYS * 9 / 10 && seen.found + seen.absent == KEYS + 10 && seen.absent >= 10);
}

static void in_callback(void *context, larder_status status, larder_value *value) {
  struct seen *seen = context;
  if (status == LARDER_OK && larder_close(seen->cache) == LARDER_INVALID) seen->refused++;
  if (larder_wait(seen->cache) == LARDER_INVALID) seen->refused++;
  larder_value_free(value);
}

static larder_cache *left;

/* The main thread has ended, as for static objects of C++. */
static void at_exit(void) {
  larder_value *value;
  int found = 0;
  char key[32];
  for (int number = 0; number < KEYS; number++) {
    key_of(number, key);
    if (larder_get(left, key, strlen(key), &value) == LARDER_OK) found++;
    larder_value_free(value);
  }
  int refused = larder_get(NULL, "k", 1, &value) == LARDER_INVALID && larder_error_text();
  if (larder_close(left) != LARDER_OK || found < KEYS / 2 || !refused) _exit(1);
  puts("closed");
}

int main(int count, char **words) {
  larder_cache *cache;
  CHECK(larder_open(NULL, 64 << 20, 0, &cache) == LARDER_OK);
  basics(cache);
  refusals(cache);
  CHECK(larder_close(cache) == LARDER_OK);
  if (count < 2) return 0;

  CHECK(larder_open(words[1], 2 << 20, 64 << 20, &cache) == LARDER_OK);
  basics(cache);
  later(cache, 0);
  larder_cache *second;
  CHECK(larder_open(words[1], 2 << 20, 64 << 20, &second) == LARDER_IN_USE && !second);
  CHECK(larder_close(cache) == LARDER_OK);

  /* What was there is there again; now all of it comes from the file, in callbacks of the library's thread. */
  CHECK(larder_open(words[1], 2 << 20, 64 << 20, &cache) == LARDER_OK);
  struct seen seen = {PTHREAD_MUTEX_INITIALIZER, cache, 0, 0, 0, 0, 0, 0};
  CHECK(larder_get_async(cache, "key-1", 5, in_callback, &seen) == LARDER_OK);
  CHECK(larder_wait(cache) == LARDER_OK);
  CHECK(seen.refused == 2);
  later(cache, 1);
  larder_value *value;
  CHECK(larder_get(cache, "key-2", 5, &value) == LARDER_OK);
  CHECK(larder_close(cache) == LARDER_OK);
  /* A value outlives its cache. */
  CHECK(larder_value_length(value) == VALUE);
  larder_value_free(value);
  CHECK(larder_open(words[1], 2 << 20, 64 << 20, &left) == LARDER_OK && atexit(at_exit) == 0);
  puts("passed");
  return 0;
}
