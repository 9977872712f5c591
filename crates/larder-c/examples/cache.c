/* A cache in memory and a file: cc cache.c -llarder_c && ./a.out /tmp/cache */
#include <stdio.h>
#include <string.h>

#include "larder.h"

/* Told when a value is there: from this thread or another. */
static void got(void *context, larder_status status, larder_value *value) {
  const char *key = context;
  if (status == LARDER_OK) {
    printf("%s: %.*s\n", key, (int)larder_value_length(value), (const char *)larder_value_data(value));
  } else {
    printf("%s: status %d\n", key, status);
  }
  larder_value_free(value);
}

int main(int count, char **words) {
  const char *path = count > 1 ? words[1] : NULL;
  larder_cache *cache;
  if (larder_open(path, 64 << 20, 256 << 20, &cache) != LARDER_OK) {
    fprintf(stderr, "%s\n", larder_error_text());
    return 1;
  }
  larder_set(cache, "bread", 5, "rye", 3, 60 * 1000);

  larder_value *value;
  if (larder_get(cache, "bread", 5, &value) == LARDER_OK) {
    printf("bread: %.*s\n", (int)larder_value_length(value), (const char *)larder_value_data(value));
    larder_value_free(value);
  }

  larder_get_async(cache, "bread", 5, got, "bread");
  larder_get_async(cache, "cake", 4, got, "cake");
  larder_wait(cache);

  /* Writes to the file what only memory holds: the next larder_open finds it. */
  return larder_close(cache) == LARDER_OK ? 0 : 1;
}
