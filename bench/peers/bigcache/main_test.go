package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/allegro/bigcache/v3"
)

// Both servers under test, each with an empty cache.
func eachServer(t *testing.T, check func(t *testing.T, root string)) {
	for _, name := range []string{"net", "fast"} {
		t.Run(name, func(t *testing.T) {
			config := bigcache.DefaultConfig(time.Minute)
			config.Verbose = false
			cache, err := bigcache.New(context.Background(), config)
			if err != nil {
				t.Fatal(err)
			}
			serve, err := server(name, cache)
			if err != nil {
				t.Fatal(err)
			}
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			go serve(listener)
			check(t, "http://"+listener.Addr().String())
		})
	}
}

func ask(t *testing.T, method, address, body string) (int, string) {
	request, err := http.NewRequest(method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

func TestAMessageIsReadAsItWasPosted(t *testing.T) {
	eachServer(t, func(t *testing.T, root string) {
		posted := `{"id":"a b","ttl":600,"content":"two\nlines, \"quoted\", \u00e9"}`
		if status, _ := ask(t, "POST", root+collection, posted); status != 201 {
			t.Fatalf("posting: %d", status)
		}
		status, content := ask(t, "GET", root+entries+"a%20b", "")
		if status != 200 || content != "two\nlines, \"quoted\", é" {
			t.Fatalf("%d %q", status, content)
		}
	})
}

func TestAPutIsReadAsItWasPut(t *testing.T) {
	eachServer(t, func(t *testing.T, root string) {
		if status, _ := ask(t, "PUT", root+entries+"k", "content"); status != 201 {
			t.Fatalf("putting: %d", status)
		}
		if status, content := ask(t, "GET", root+entries+"k", ""); status != 200 || content != "content" {
			t.Fatalf("%d %q", status, content)
		}
	})
}

func TestWhatIsNoMessageAndWhatIsNotThereAreRefused(t *testing.T) {
	eachServer(t, func(t *testing.T, root string) {
		for _, bad := range []string{"", "[]", `{"id":"a"}`, `{"content":"a"}`, `{"id":1,"content":"a"}`, `{"id":"a","content":"b"} x`} {
			if status, _ := ask(t, "POST", root+collection, bad); status != 400 {
				t.Errorf("%q: %d", bad, status)
			}
		}
		for _, missing := range []string{entries + "nothing", entries, "/", "/v2"} {
			if status, _ := ask(t, "GET", root+missing, ""); status != 404 {
				t.Errorf("%q: %d", missing, status)
			}
		}
		if status, _ := ask(t, "DELETE", root+entries+"a", ""); status != 405 {
			t.Errorf("DELETE: %d", status)
		}
	})
}
