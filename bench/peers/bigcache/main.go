// The cache service of S4 as its authors would write it today: BigCache behind net/http or fasthttp.
//
//	POST /v1/cache          {"id","content"}: 201, and from then on GET answers with the content
//	GET  /v1/cache/{id}     the content, or 404
//	PUT  /v1/cache/{id}     the body is the content: 201
//	GET  /healthz           a few bytes, without the cache
//
// BigCache is set up as its documentation recommends: memory reserved for all entries of the life
// window, a hard limit, neither statistics nor logging. JSON is read by easyjson's lexer without
// reflection on both servers, so that they differ in nothing but HTTP. A plain map takes BigCache's
// place with -cache map.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/allegro/bigcache/v3"
)

const (
	collection = "/v1/cache"
	entries    = "/v1/cache/"
	health     = "/healthz"
	healthy    = "ok\n"
	// Longest body that is read.
	bodyBytesMax = 1 << 20
)

type settings struct {
	server     string
	cache      string
	listen     string
	life       time.Duration
	memoryMiB  int
	shards     int
	entries    int
	entryBytes int
}

func main() {
	set, isVersion := parse()
	if isVersion {
		fmt.Println(versions())
		return
	}
	if err := run(set); err != nil {
		fmt.Fprintln(os.Stderr, "bigcache-service:", err)
		os.Exit(1)
	}
}

func parse() (settings, bool) {
	var set settings
	flag.StringVar(&set.server, "server", "net", "HTTP server: net or fast")
	flag.StringVar(&set.cache, "cache", "bigcache", "what keeps messages: bigcache or map")
	flag.StringVar(&set.listen, "listen", "127.0.0.1:8081", "address")
	flag.DurationVar(&set.life, "life", 10*time.Minute, "how long entries are kept")
	flag.IntVar(&set.memoryMiB, "memory-mib", 2048, "hard limit of BigCache's queues")
	flag.IntVar(&set.shards, "shards", 1024, "shards, a power of two")
	flag.IntVar(&set.entries, "entries", 3_000_000, "entries in one life window, for memory in advance")
	flag.IntVar(&set.entryBytes, "entry-bytes", 560, "bytes of an entry, for memory in advance")
	isVersion := flag.Bool("version", false, "prints the versions of the modules")
	flag.Parse()
	return set, *isVersion
}

func makeCache(set settings) (store, error) {
	switch set.cache {
	case "map":
		return newPlainMap(set.life), nil
	case "bigcache":
	default:
		return nil, errors.New("-cache is bigcache or map")
	}
	config := bigcache.DefaultConfig(set.life)
	config.Shards = set.shards
	config.MaxEntriesInWindow = set.entries
	config.MaxEntrySize = set.entryBytes
	config.HardMaxCacheSize = set.memoryMiB
	config.Verbose = false
	return bigcache.New(context.Background(), config)
}

func run(set settings) error {
	cache, err := makeCache(set)
	if err != nil {
		return err
	}
	serve, err := server(set.server, cache)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", set.listen)
	if err != nil {
		return err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, os.Interrupt)
	failed := make(chan error, 1)
	go func() { failed <- serve(listener) }()
	select {
	case <-stop:
		return nil
	case err := <-failed:
		return err
	}
}

func server(name string, cache store) (func(net.Listener) error, error) {
	switch name {
	case "net":
		return netServer(cache), nil
	case "fast":
		return fastServer(cache), nil
	default:
		return nil, errors.New("-server is net or fast")
	}
}

// The modules' versions in one line.
func versions() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	text := info.GoVersion
	for _, module := range info.Deps {
		switch module.Path {
		case "github.com/allegro/bigcache/v3":
			text += " bigcache " + module.Version
		case "github.com/valyala/fasthttp":
			text += " fasthttp " + module.Version
		}
	}
	return text
}
