// Tests go-redis against a server on this port. Prints a line for each check: "ok" or "not ok".
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

func check(name string, held bool) {
	if held {
		fmt.Println("ok", name)
	} else {
		fmt.Println("not ok", name)
	}
}

func main() {
	ctx := context.Background()
	for _, protocol := range []int{2, 3} {
		c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + os.Args[1], Protocol: protocol})
		check("flush", c.FlushAll(ctx).Err() == nil)
		check("set and get", c.Set(ctx, "a", "1", time.Minute).Err() == nil && c.Get(ctx, "a").Val() == "1")
		check("a miss", errors.Is(c.Get(ctx, "none").Err(), redis.Nil))
		ttl := c.TTL(ctx, "a").Val()
		check("lifetimes", ttl > 0 && ttl <= time.Minute)
		check("set if absent", !c.SetNX(ctx, "a", "2", 0).Val() && c.SetNX(ctx, "n", "5", 0).Val())
		check("counting", c.IncrBy(ctx, "n", 2).Val() == 7)
		found := c.MGet(ctx, "a", "none", "n").Val()
		check("several at a time", len(found) == 3 && found[0] == "1" && found[1] == nil && found[2] == "7")
		pipe := c.Pipeline()
		for i := 0; i < 50; i++ {
			pipe.Set(ctx, fmt.Sprintf("p%d", i), i, 0)
		}
		_, err := pipe.Exec(ctx)
		check("a pipeline", err == nil)
		err = c.Watch(ctx, func(tx *redis.Tx) error {
			_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
				pipe.Incr(ctx, "n")
				return nil
			})
			return err
		}, "n")
		check("a transaction", err == nil && c.Get(ctx, "n").Val() == "8")
		var keys []string
		for scan := c.Scan(ctx, 0, "p*", 7).Iterator(); scan.Next(ctx); {
			keys = append(keys, scan.Val())
		}
		sort.Strings(keys)
		check("a scan", len(keys) == 50 && keys[0] == "p0")
		err = c.Do(ctx, "xlen", "s").Err()
		check("what there is not is an error", err != nil && strings.Contains(err.Error(), "unknown command"))
		check("close", c.Close() == nil)
	}
}
