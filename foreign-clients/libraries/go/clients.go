// Clients of Redis's protocol that compile in seconds.

package main

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"
)

var ctx = context.Background()

func client() *goredis.Client {
	return goredis.NewClient(&goredis.Options{Addr: address})
}

var _ = program("go-redis", func() {
	r := client()
	show("set", got(r.Set(ctx, "a", "1", time.Minute).Result()), got(r.Get(ctx, "a").Result()))
	show("ttl", near(got(r.TTL(ctx, "a").Result()), time.Minute), got(r.Incr(ctx, "a").Result()))
	must(r.MSet(ctx, "x", 1, "y", 2).Err())
	show("many", got(r.MGet(ctx, "x", "none", "y").Result()), got(r.Del(ctx, "x", "no").Result()))
	show("miss", r.Get(ctx, "none").Err() == goredis.Nil)
	must(r.HSet(ctx, "h", "f", "v", "n", 1).Err())
	show("hash", got(r.HGetAll(ctx, "h").Result()))
	must(r.ZAdd(ctx, "z", goredis.Z{Score: 1, Member: "a"}).Err())
	show("sorted", got(r.ZRangeWithScores(ctx, "z", 0, -1).Result()))
	commands, err := r.TxPipelined(ctx, func(pipe goredis.Pipeliner) error {
		pipe.Incr(ctx, "p")
		pipe.Expire(ctx, "p", time.Minute)
		return nil
	})
	must(err)
	show("transaction", len(commands), commands[0].(*goredis.IntCmd).Val())
	watched := r.Watch(ctx, func(tx *goredis.Tx) error {
		must(r.Incr(ctx, "p").Err())
		_, err := tx.TxPipelined(ctx, func(pipe goredis.Pipeliner) error { return pipe.Get(ctx, "p").Err() })
		return err
	}, "p")
	show("watched", watched)
	script := goredis.NewScript("return redis.call('INCRBY', KEYS[1], ARGV[1])")
	show("script", got(script.Run(ctx, r, []string{"p"}, 10).Int()))
	listener := r.Subscribe(ctx, "news")
	_ = got(listener.Receive(ctx))
	must(r.Publish(ctx, "news", "hello").Err())
	show("message", got(listener.ReceiveMessage(ctx)).Payload)
	keys := 0
	for all := r.Scan(ctx, 0, "?", 10).Iterator(); all.Next(ctx); {
		keys++
	}
	show("scan", keys)
})

var _ = program("go-redis lists", func() {
	r := client()
	show("push", got(r.RPush(ctx, "jobs", "a", "b", "c").Result()))
	show("range", got(r.LRange(ctx, "jobs", 0, -1).Result()), got(r.LPop(ctx, "jobs").Result()))
	show("blocking", got(r.BLPop(ctx, time.Second, "jobs").Result()))
})

var _ = program("redigo", func() {
	pool := &redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial("tcp", address) }}
	c := pool.Get()
	show("set", got(c.Do("SET", "a", 1, "EX", 60)), got(redis.Int(c.Do("INCR", "a"))))
	show("hash", got(c.Do("HSET", "h", "f", "v")), got(redis.StringMap(c.Do("HGETALL", "h"))))
	must(c.Send("MULTI"))
	must(c.Send("INCR", "a"))
	must(c.Send("GET", "a"))
	values := got(redis.Values(c.Do("EXEC")))
	show("transaction", values[0], values[1])
	script := redis.NewScript(1, "return redis.call('GET', KEYS[1])")
	show("script", got(redis.String(script.Do(c, "a"))))
	listener := redis.PubSubConn{Conn: pool.Get()}
	must(listener.Subscribe("news"))
	show("subscribed", listener.Receive().(redis.Subscription).Count)
	_ = got(c.Do("PUBLISH", "news", "hello"))
	show("message", string(listener.Receive().(redis.Message).Data))
})
