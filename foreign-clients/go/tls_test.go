// Package clients tries Cellar over TLS, and in a cluster. foreign-clients/run starts the servers,
// and encrypted.py says what stands in the folder TLS_FOLDER.
package clients

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	poolSize = 4
	patience = 60 * time.Second
)

var (
	sizes    = []int{1, 2, 1000, 16383, 16384, 16385, 100_000, 1 << 20}
	versions = map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13}
)

// A row is a way to connect; what is "-" in the table is empty.
type row map[string]string

func rows(t *testing.T) map[string]row {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(string(read(t, "connections.tsv"))), "\n")
	names := strings.Split(lines[0], "\t")
	found := map[string]row{}
	for _, line := range lines[1:] {
		one := row{}
		for i, field := range strings.Split(line, "\t") {
			if field != "-" {
				one[names[i]] = field
			}
		}
		found[one["name"]] = one
	}
	return found
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(os.Getenv("TLS_FOLDER"), name))
	check(t, err)
	return text
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// trust is what a client knows who connects in this way; version 0 is any.
func trust(t *testing.T, one row, authority string, version uint16) *tls.Config {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(read(t, authority+".pem"))
	config := &tls.Config{
		RootCAs:            pool,
		ServerName:         "localhost",
		MinVersion:         max(version, tls.VersionTLS12),
		MaxVersion:         version,
		ClientSessionCache: tls.NewLRUClientSessionCache(poolSize),
	}
	if name := one["certificate"]; name != "" {
		pair, err := tls.X509KeyPair(read(t, name+".pem"), read(t, name+".key"))
		check(t, err)
		config.Certificates = []tls.Certificate{pair}
	}
	return config
}

func open(t *testing.T, one row, config *tls.Config) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{
		Addr:       net.JoinHostPort("localhost", one["resp"]),
		Username:   one["user"],
		Password:   one["password"],
		TLSConfig:  config,
		PoolSize:   poolSize,
		MaxRetries: -1,
	})
	t.Cleanup(func() { client.Close() })
	return client
}

// each runs a test in each way to connect, with each version.
func each(t *testing.T, try func(*testing.T, row, uint16)) {
	for name, one := range rows(t) {
		for called, version := range versions {
			t.Run(name+"-"+called, func(t *testing.T) { try(t, one, version) })
		}
	}
}

func TestAPoolStoresAndReadsOnSeveralConnections(t *testing.T) {
	each(t, func(t *testing.T, one row, version uint16) {
		client := open(t, one, trust(t, one, "ca", version))
		var group sync.WaitGroup
		for worker := range poolSize {
			group.Go(func() {
				for _, size := range sizes {
					key, value := fmt.Sprintf("go-%d-%d", worker, size), bytes.Repeat([]byte{byte(size)}, size)
					if err := client.Set(t.Context(), key, value, 0).Err(); err != nil {
						t.Error(err)
					}
					got, err := client.Get(t.Context(), key).Bytes()
					if err != nil || !bytes.Equal(got, value) {
						t.Errorf("%d bytes came back as %d: %v", size, len(got), err)
					}
				}
			})
		}
		group.Wait()
		if opened := client.PoolStats().TotalConns; opened < 2 {
			t.Errorf("only %d connections", opened)
		}
	})
}

func TestAPipelineAnswersInOrder(t *testing.T) {
	each(t, func(t *testing.T, one row, version uint16) {
		client := open(t, one, trust(t, one, "ca", version))
		pipe, replies := client.Pipeline(), []*redis.StringCmd{}
		for i := range 1000 {
			pipe.Set(t.Context(), fmt.Sprint("go-p", i), i, 0)
			replies = append(replies, pipe.Get(t.Context(), fmt.Sprint("go-p", i)))
		}
		_, err := pipe.Exec(t.Context())
		check(t, err)
		for i, reply := range replies {
			if got, err := reply.Int(); got != i || err != nil {
				t.Fatalf("%d came back as %d: %v", i, got, err)
			}
		}
	})
}

func TestMessagesReachSubscribers(t *testing.T) {
	each(t, func(t *testing.T, one row, version uint16) {
		client := open(t, one, trust(t, one, "ca", version))
		listener := client.Subscribe(t.Context(), "go-news")
		defer listener.Close()
		_, err := listener.Receive(t.Context())
		check(t, err)
		said := strings.Repeat("x", 100_000)
		check(t, client.Publish(t.Context(), "go-news", said).Err())
		bounded, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		heard, err := listener.ReceiveMessage(bounded)
		check(t, err)
		if heard.Payload != said {
			t.Errorf("%d bytes were heard", len(heard.Payload))
		}
	})
}

func TestACertificateOfAnotherAuthorityIsRefused(t *testing.T) {
	each(t, func(t *testing.T, one row, version uint16) {
		err := open(t, one, trust(t, one, "other", version)).Ping(t.Context()).Err()
		if err == nil || !strings.Contains(err.Error(), "unknown authority") {
			t.Errorf("%v", err)
		}
	})
}

func TestOnlyACertificateOfTheAuthorityComesIn(t *testing.T) {
	for called, version := range versions {
		t.Run(called, func(t *testing.T) {
			one := rows(t)["mutual"]
			client := open(t, one, trust(t, one, "ca", version))
			info, err := client.Do(t.Context(), "CLIENT", "INFO").Text()
			if err != nil || !strings.Contains(info, " identity=alice") {
				t.Errorf("%s: %v", info, err)
			}
			for _, shown := range []string{"", "stranger"} {
				config := trust(t, row{"certificate": shown}, "ca", version)
				if open(t, one, config).Ping(t.Context()).Err() == nil {
					t.Errorf("a client with %q came in", shown)
				}
			}
		})
	}
}

func TestASessionGoesOnWhenTheClientConnectsAnew(t *testing.T) {
	for called, version := range versions {
		t.Run(called, func(t *testing.T) {
			for _, name := range []string{"passwords", "mutual"} {
				one := rows(t)[name]
				config := trust(t, one, "ca", version)
				var full, resumed atomic.Int32
				config.VerifyConnection = func(state tls.ConnectionState) error {
					if state.DidResume {
						resumed.Add(1)
					} else {
						full.Add(1)
					}
					return nil
				}
				for range 3 {
					client := open(t, one, config)
					check(t, client.Ping(t.Context()).Err())
					check(t, client.Close())
				}
				if full.Load() != 1 || resumed.Load() != 2 {
					t.Errorf("%s: %d full, %d resumed", name, full.Load(), resumed.Load())
				}
			}
		})
	}
}

// serial is the number of the certificate that the server shows.
func serial(t *testing.T, one row) string {
	t.Helper()
	stream, err := tls.Dial("tcp", net.JoinHostPort("localhost", one["resp"]), trust(t, one, "ca", 0))
	check(t, err)
	defer stream.Close()
	return stream.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

func TestConnectionsOutliveTheirCertificate(t *testing.T) {
	one := rows(t)["changing"]
	client := open(t, one, trust(t, one, "ca", 0)).Conn()
	defer client.Close()
	id := client.ClientID(t.Context()).Val()
	for range 2 {
		end := time.Now().Add(patience)
		for first := serial(t, one); serial(t, one) == first; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("the certificate stays the same")
			}
		}
		if now, err := client.ClientID(t.Context()).Result(); now != id || id == 0 || err != nil {
			t.Errorf("connection %d became %d: %v", id, now, err)
		}
	}
}
