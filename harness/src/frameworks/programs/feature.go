// Runs features of a library, and prints a line for each: "ok WHAT", or "not ok WHAT -- why".
package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const limit = 30 * time.Second

var address = "127.0.0.1:" + os.Args[2]

func client() *redis.Client { return redis.NewClient(&redis.Options{Addr: address}) }

func versions(modules ...string) {
	built, _ := debug.ReadBuildInfo()
	for _, module := range built.Deps {
		for _, wanted := range modules {
			if module.Path == wanted {
				fmt.Println("version", strings.TrimPrefix(wanted, "github.com/"), module.Version)
			}
		}
	}
}

// feature runs a body on an empty server.
func feature(name string, body func(ctx context.Context) error) {
	ctx, stop := context.WithTimeout(context.Background(), limit)
	defer stop()
	done := make(chan error, 1)
	go func() {
		if err := emptied(); err != nil {
			done <- err
			return
		}
		done <- body(ctx)
	}()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		fmt.Printf("not ok %s -- %s\n", name, strings.Join(strings.Fields(err.Error()), " "))
		return
	}
	fmt.Println("ok", name)
}

func emptied() error {
	connection, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer connection.Close()
	fmt.Fprint(connection, "FLUSHALL\r\n")
	answer, err := bufio.NewReader(connection).ReadString('\n')
	if err == nil && !strings.HasPrefix(answer, "+OK") {
		err = fmt.Errorf("FLUSHALL: %s", answer)
	}
	return err
}

// hold returns an error that names the first check that does not hold.
func hold(checks ...check) error {
	for _, check := range checks {
		if !check.held {
			return fmt.Errorf("it does not hold: %s", check.name)
		}
	}
	return nil
}

type check struct {
	name string
	held bool
}

// exclude changes a number in several goroutines, which lose changes unless the lock excludes them.
func exclude(ctx context.Context, with func(ctx context.Context, body func() error) error) error {
	const routines, rounds = 8, 5
	var group sync.WaitGroup
	wrong := make(chan error, routines)
	for range routines {
		group.Add(1)
		go func() {
			defer group.Done()
			c := client()
			defer c.Close()
			for range rounds {
				err := with(ctx, func() error {
					now, err := c.Get(ctx, "n").Int()
					if err != nil && err != redis.Nil {
						return err
					}
					time.Sleep(time.Millisecond)
					return c.Set(ctx, "n", now+1, 0).Err()
				})
				if err != nil {
					wrong <- err
					return
				}
			}
		}()
	}
	group.Wait()
	select {
	case err := <-wrong:
		return err
	default:
	}
	c := client()
	defer c.Close()
	found, err := c.Get(ctx, "n").Int()
	if err == nil && found != routines*rounds {
		err = fmt.Errorf("%d instead of %d", found, routines*rounds)
	}
	return err
}
