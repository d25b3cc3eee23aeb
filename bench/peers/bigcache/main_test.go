package main

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Both servers under test, each with an empty cache of both kinds.
func eachServer(t *testing.T, check func(t *testing.T, root string)) {
	for _, set := range []settings{
		{server: "net", cache: "bigcache"},
		{server: "fast", cache: "bigcache"},
		{server: "net", cache: "map"},
		{server: "fast", cache: "map"},
	} {
		t.Run(set.server+" "+set.cache, func(t *testing.T) {
			set.life, set.shards, set.entries, set.entryBytes = time.Minute, 4, 100, 100
			cache, err := makeCache(set)
			if err != nil {
				t.Fatal(err)
			}
			serve, err := server(set.server, cache)
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

func TestHealthIsToldWithoutTheCache(t *testing.T) {
	eachServer(t, func(t *testing.T, root string) {
		if status, content := ask(t, "GET", root+health, ""); status != 200 || content != healthy {
			t.Fatalf("%d %q", status, content)
		}
	})
}

func TestAMessageOfThePlainMapIsSweptWhenItsTimeIsOver(t *testing.T) {
	plain := newPlainMap(time.Minute)
	plain.Set("a", []byte("content"))
	plain.sweep(time.Now())
	if _, err := plain.Get("a"); err != nil {
		t.Fatal("swept too early")
	}
	plain.sweep(time.Now().Add(2 * time.Minute))
	if len(plain.messages) > 0 {
		t.Fatal("not swept")
	}
	plain.life = -time.Minute
	plain.Set("a", []byte("content"))
	if _, err := plain.Get("a"); err == nil {
		t.Fatal("its time is over")
	}
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
