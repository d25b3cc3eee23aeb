//go:build !quick

// More clients of Redis's protocol.

package main

import (
	"time"

	"github.com/mediocregopher/radix/v4"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
	"github.com/valkey-io/valkey-go"
)

var _ = program("radix", func() {
	r := got((radix.PoolConfig{Size: 2}).New(ctx, "tcp", address))
	var text string
	var fields map[string]string
	must(r.Do(ctx, radix.Cmd(nil, "SET", "a", "1", "EX", "60")))
	must(r.Do(ctx, radix.Cmd(&text, "GET", "a")))
	must(r.Do(ctx, radix.Cmd(nil, "HSET", "h", "f", "v")))
	must(r.Do(ctx, radix.Cmd(&fields, "HGETALL", "h")))
	show("got", text, fields)
	must(r.Do(ctx, radix.NewEvalScript("return ARGV[1]").Cmd(&text, []string{"k"}, "v")))
	show("script", text)
	pipe := radix.NewPipeline()
	var first, second int
	pipe.Append(radix.Cmd(&first, "INCR", "n"))
	pipe.Append(radix.Cmd(&second, "INCR", "n"))
	must(r.Do(ctx, pipe))
	show("pipeline", first, second)
})

var _ = program("rueidis", func() {
	r := got(rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address}}))
	must(r.Do(ctx, r.B().Set().Key("a").Value("1").Ex(time.Minute).Build()).Error())
	show("get", got(r.Do(ctx, r.B().Get().Key("a").Build()).ToString()))
	cached := func() rueidis.RedisResult {
		return r.DoCache(ctx, r.B().Get().Key("a").Cache(), time.Minute)
	}
	first, second := cached(), cached()
	show("near cache", first.IsCacheHit(), second.IsCacheHit(), got(second.ToString()))
	must(r.Do(ctx, r.B().Set().Key("a").Value("2").Build()).Error())
	time.Sleep(100 * time.Millisecond)
	show("invalidated", got(cached().ToString()))
	show("many", len(got(rueidis.MGet(r, ctx, []string{"a", "none"}))))
	script := rueidis.NewLuaScript("return ARGV[1]")
	show("script", got(script.Exec(ctx, r, []string{"k"}, []string{"v"}).ToString()))
	r.Close()
})

var _ = program("rueidislock", func() {
	locks := got(rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   rueidis.ClientOption{InitAddress: []string{address}},
		KeyMajority:    1,
		NoLoopTracking: true,
	}))
	_, release, err := locks.WithContext(ctx, "printer")
	must(err)
	_, _, err = locks.TryWithContext(ctx, "printer")
	show("other", err)
	release()
	_, release, err = locks.WithContext(ctx, "printer")
	show("again", err == nil)
	release()
	locks.Close()
})

var _ = program("valkey-go", func() {
	r := got(valkey.NewClient(valkey.ClientOption{InitAddress: []string{address}}))
	must(r.Do(ctx, r.B().Set().Key("a").Value("1").Ex(time.Minute).Build()).Error())
	cached := func() valkey.ValkeyResult {
		return r.DoCache(ctx, r.B().Get().Key("a").Cache(), time.Minute)
	}
	first, second := cached(), cached()
	show("near cache", first.IsCacheHit(), second.IsCacheHit(), got(second.ToString()))
	for _, answer := range r.DoMulti(ctx, r.B().Incr().Key("a").Build(), r.B().Hset().Key("h").FieldValue().FieldValue("f", "v").Build()) {
		show("pipeline", got(answer.AsInt64()))
	}
	show("hash", got(r.Do(ctx, r.B().Hgetall().Key("h").Build()).AsStrMap()))
	r.Close()
})
