// redsync with one server. See feature.go.
package main

import (
	"context"
	"errors"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
)

func main() {
	versions("github.com/go-redsync/redsync/v4", "github.com/redis/go-redis/v9")
	locks := redsync.New(goredis.NewPool(client()))
	c := client()

	feature("Lock, TryLock, Unlock, owner, expiry", func(ctx context.Context) error {
		once := redsync.WithTries(1)
		one, other := locks.NewMutex("l", once), locks.NewMutex("l", once)
		first := one.LockContext(ctx)
		var taken *redsync.ErrTaken
		second := other.TryLockContext(ctx)
		stranger, _ := other.UnlockContext(ctx)
		released, err := one.UnlockContext(ctx)
		if err != nil {
			return err
		}
		exists := c.Exists(ctx, "l").Val()
		short := locks.NewMutex("l", once, redsync.WithExpiry(200*time.Millisecond))
		third := short.LockContext(ctx)
		time.Sleep(300 * time.Millisecond)
		fourth := other.LockContext(ctx)
		late, _ := short.UnlockContext(ctx)
		return hold(
			check{"the first gets it", first == nil},
			check{"the second does not", errors.As(second, &taken)},
			check{"a stranger cannot release it", !stranger},
			check{"the owner can", released && exists == 0},
			check{"it expires", third == nil && fourth == nil},
			check{"the old owner cannot release it", !late},
		)
	})

	feature("Extend, Until, with and without SET NX", func(ctx context.Context) error {
		one := locks.NewMutex("l", redsync.WithExpiry(10*time.Second), redsync.WithSetNXOnExtend())
		if err := one.LockContext(ctx); err != nil {
			return err
		}
		c.PExpire(ctx, "l", time.Second)
		extended, err := one.ExtendContext(ctx)
		if err != nil {
			return err
		}
		left := c.PTTL(ctx, "l").Val()
		c.Del(ctx, "l")
		again, err := one.ExtendContext(ctx)
		if err != nil {
			return err
		}
		plain := locks.NewMutex("p", redsync.WithExpiry(10*time.Second))
		if err := plain.LockContext(ctx); err != nil {
			return err
		}
		c.Del(ctx, "p")
		lost, _ := plain.ExtendContext(ctx)
		return hold(
			check{"extended", extended && left > 8*time.Second},
			check{"taken again", again && c.Exists(ctx, "l").Val() == 1},
			check{"a lost lock is not extended", !lost},
		)
	})

	feature("8 goroutines exclude each other", func(ctx context.Context) error {
		return exclude(ctx, func(ctx context.Context, body func() error) error {
			delay := redsync.WithRetryDelay(5 * time.Millisecond)
			mutex := locks.NewMutex("l", redsync.WithTries(10_000), delay)
			if err := mutex.LockContext(ctx); err != nil {
				return err
			}
			if err := body(); err != nil {
				return err
			}
			_, err := mutex.UnlockContext(ctx)
			return err
		})
	})
}
