// redislock. See feature.go.
package main

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
)

func main() {
	versions("github.com/bsm/redislock", "github.com/redis/go-redis/v9")
	locks := redislock.New(client())
	c := client()

	feature("Obtain, Release, owner, expiry", func(ctx context.Context) error {
		one, err := locks.Obtain(ctx, "l", 10*time.Second, nil)
		if err != nil {
			return err
		}
		_, second := locks.Obtain(ctx, "l", 10*time.Second, nil)
		left, err := one.TTL(ctx)
		if err != nil {
			return err
		}
		released := one.Release(ctx)
		twice := one.Release(ctx)
		short, err := locks.Obtain(ctx, "l", 200*time.Millisecond, nil)
		if err != nil {
			return err
		}
		time.Sleep(300 * time.Millisecond)
		_, third := locks.Obtain(ctx, "l", 10*time.Second, nil)
		late := short.Release(ctx)
		return hold(
			check{"the second does not get it", errors.Is(second, redislock.ErrNotObtained)},
			check{"it has a lifetime", left > 9*time.Second && left <= 10*time.Second},
			check{"it is released once", released == nil && errors.Is(twice, redislock.ErrLockNotHeld)},
			check{"it expires", third == nil && errors.Is(late, redislock.ErrLockNotHeld)},
		)
	})

	feature("Refresh, TTL, Token, Metadata", func(ctx context.Context) error {
		one, err := locks.Obtain(ctx, "l", time.Second, &redislock.Options{Metadata: "of a test"})
		if err != nil {
			return err
		}
		refreshed := one.Refresh(ctx, 10*time.Second, nil)
		left, err := one.TTL(ctx)
		if err != nil {
			return err
		}
		value := c.Get(ctx, "l").Val()
		same, err := locks.Obtain(ctx, "l", 20*time.Second, &redislock.Options{Token: one.Token()})
		if err != nil {
			return err
		}
		c.Del(ctx, "l")
		lost := same.Refresh(ctx, time.Second, nil)
		gone, err := same.TTL(ctx)
		return hold(
			check{"refreshed", refreshed == nil && left > 9*time.Second},
			check{"token and metadata", value == one.Token()+"of a test" && one.Metadata() == "of a test"},
			check{"a lost lock is not refreshed", errors.Is(lost, redislock.ErrNotObtained)},
			check{"and has no lifetime", err == nil && gone == 0},
		)
	})

	feature("8 goroutines exclude each other", func(ctx context.Context) error {
		return exclude(ctx, func(ctx context.Context, body func() error) error {
			options := redislock.Options{RetryStrategy: redislock.LinearBackoff(5 * time.Millisecond)}
			held, err := locks.Obtain(ctx, "l", 10*time.Second, &options)
			if err != nil {
				return err
			}
			if err := body(); err != nil {
				return err
			}
			return held.Release(ctx)
		})
	})
}
