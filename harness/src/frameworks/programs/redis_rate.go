// redis_rate of go-redis. See feature.go.
package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-redis/redis_rate/v10"
)

func main() {
	versions("github.com/go-redis/redis_rate/v10", "github.com/redis/go-redis/v9")
	limiter := redis_rate.NewLimiter(client())

	feature("Allow: exact, 8 goroutines", func(ctx context.Context) error {
		var group sync.WaitGroup
		var allowed, wrong atomic.Int64
		for range 8 {
			group.Add(1)
			go func() {
				defer group.Done()
				for range 20 {
					found, err := limiter.Allow(ctx, "u", redis_rate.PerHour(50))
					if err != nil {
						wrong.Add(1)
						return
					}
					allowed.Add(int64(found.Allowed))
				}
			}()
		}
		group.Wait()
		if allowed.Load() != 50 || wrong.Load() != 0 {
			return fmt.Errorf("%d allowed instead of 50, %d errors", allowed.Load(), wrong.Load())
		}
		return nil
	})

	feature("AllowN, AllowAtMost, Reset", func(ctx context.Context) error {
		limit := redis_rate.PerMinute(10)
		four, err := limiter.AllowN(ctx, "u", limit, 4)
		if err != nil {
			return err
		}
		nine, err := limiter.AllowN(ctx, "u", limit, 9)
		if err != nil {
			return err
		}
		most, err := limiter.AllowAtMost(ctx, "u", limit, 9)
		if err != nil {
			return err
		}
		if err := limiter.Reset(ctx, "u"); err != nil {
			return err
		}
		again, err := limiter.AllowN(ctx, "u", limit, 10)
		if err != nil {
			return err
		}
		return hold(
			check{"four are allowed", four.Allowed == 4 && four.RetryAfter == -1},
			check{"nine are not", nine.Allowed == 0 && nine.RetryAfter > 0},
			check{"of nine, the six that are left", most.Allowed == 6 || most.Allowed == 5},
			check{"ten are allowed after a reset", again.Allowed == 10},
		)
	})

	feature("renewal", func(ctx context.Context) error {
		limit := redis_rate.Limit{Rate: 1, Burst: 1, Period: 500 * time.Millisecond}
		first, err := limiter.Allow(ctx, "u", limit)
		if err != nil {
			return err
		}
		second, err := limiter.Allow(ctx, "u", limit)
		if err != nil {
			return err
		}
		time.Sleep(600 * time.Millisecond)
		third, err := limiter.Allow(ctx, "u", limit)
		if err != nil {
			return err
		}
		return hold(check{"1, 0, 1", first.Allowed == 1 && second.Allowed == 0 && third.Allowed == 1})
	})
}
