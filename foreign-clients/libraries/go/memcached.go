// Clients of memcached's protocol.

package main

import (
	"time"

	"github.com/bradfitz/gomemcache/memcache"
)

var _ = program("gomemcache", func() {
	c := memcache.New(address)
	// A busy machine may take longer than its half a second.
	c.Timeout = 20 * time.Second
	must(c.Set(&memcache.Item{Key: "a", Value: []byte("1"), Flags: 7, Expiration: 60}))
	item := got(c.Get("a"))
	show("set", item.Value, item.Flags, got(c.Increment("a", 4)))
	show("add", c.Add(&memcache.Item{Key: "a"}), c.Replace(&memcache.Item{Key: "none"}))
	must(c.Set(&memcache.Item{Key: "b", Value: []byte("2")}))
	show("many", len(got(c.GetMulti([]string{"a", "none", "b"}))))
	item = got(c.Get("b"))
	item.Value = []byte("3")
	show("cas", c.CompareAndSwap(item), c.CompareAndSwap(item))
	show("touch", c.Touch("b", 30), c.Append(&memcache.Item{Key: "b", Value: []byte("!")}))
	show("delete", got(c.Get("b")).Value, c.Delete("b"), c.Delete("b"), c.Ping(), c.FlushAll())
})
