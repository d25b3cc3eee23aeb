package clients

// A cluster through go-redis and rueidis; cluster_clients.py has the nodes.

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

const keysOfEach = 1000

// A clusterClient is what a test does with a client: single commands, and batches of them.
type clusterClient struct {
	set    func(ctx context.Context, key, value string) error
	get    func(ctx context.Context, key string) (string, error)
	setAll func(ctx context.Context, keys []string, value string) error
	getAll func(ctx context.Context, keys []string) ([]string, error)
}

func nodes() []string {
	return strings.Split(os.Getenv("CLUSTER_NODES"), ",")
}

func openGoRedis(t *testing.T) clusterClient {
	// By itself it hears of a dead node's going after a minute.
	options := &redis.ClusterOptions{Addrs: nodes(), ClusterStateReloadInterval: time.Second}
	client := redis.NewClusterClient(options)
	t.Cleanup(func() { client.Close() })
	return clusterClient{
		set: func(ctx context.Context, key, value string) error {
			return client.Set(ctx, key, value, 0).Err()
		},
		get: func(ctx context.Context, key string) (string, error) {
			return client.Get(ctx, key).Result()
		},
		setAll: func(ctx context.Context, keys []string, value string) error {
			_, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
				for _, key := range keys {
					pipe.Set(ctx, key, value, 0)
				}
				return nil
			})
			return err
		},
		getAll: func(ctx context.Context, keys []string) ([]string, error) {
			replies, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
				for _, key := range keys {
					pipe.Get(ctx, key)
				}
				return nil
			})
			found := []string{}
			for _, reply := range replies {
				found = append(found, reply.(*redis.StringCmd).Val())
			}
			return found, err
		},
	}
}

func openRueidis(t *testing.T) clusterClient {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: nodes()})
	check(t, err)
	t.Cleanup(client.Close)
	return clusterClient{
		set: func(ctx context.Context, key, value string) error {
			return client.Do(ctx, client.B().Set().Key(key).Value(value).Build()).Error()
		},
		get: func(ctx context.Context, key string) (string, error) {
			return client.Do(ctx, client.B().Get().Key(key).Build()).ToString()
		},
		setAll: func(ctx context.Context, keys []string, value string) error {
			pairs := map[string]string{}
			for _, key := range keys {
				pairs[key] = value
			}
			for _, err := range rueidis.MSet(client, ctx, pairs) {
				if err != nil {
					return err
				}
			}
			return nil
		},
		getAll: func(ctx context.Context, keys []string) ([]string, error) {
			replies, err := rueidis.MGet(client, ctx, keys)
			found := []string{}
			for _, key := range keys {
				reply := replies[key]
				value, _ := reply.ToString()
				found = append(found, value)
			}
			return found, err
		},
	}
}

// play has a scene happen; cluster_clients.py says which there are.
func play(t *testing.T, scene string) {
	t.Helper()
	connection, err := net.Dial("tcp", os.Getenv("CLUSTER_STAGE"))
	check(t, err)
	defer connection.Close()
	fmt.Fprintln(connection, scene)
	answer, err := bufio.NewReader(connection).ReadString('\n')
	if answer != "done\n" {
		t.Fatalf("%s: %q, %v", scene, answer, err)
	}
}

// writing writes without a pause until the returned function is called; some of it is stored.
func writing(t *testing.T, client clusterClient, keys []string) func() {
	ctx, end := context.WithCancel(t.Context())
	var stored atomic.Int64
	var group sync.WaitGroup
	group.Go(func() {
		for turn := 0; ctx.Err() == nil; turn++ {
			if client.set(t.Context(), "written:"+keys[turn%len(keys)], "written") == nil {
				stored.Add(1)
			}
		}
	})
	return func() {
		// One answer that a dead node owes may take longer than the scene.
		latest := time.Now().Add(2 * patience)
		for stored.Load() == 0 && time.Now().Before(latest) {
			time.Sleep(10 * time.Millisecond)
		}
		end()
		group.Wait()
		if stored.Load() == 0 {
			t.Error("nothing was written")
		}
	}
}

func storesAndFindsAll(t *testing.T, client clusterClient, keys []string, value string) error {
	one, other := keys[:len(keys)/2], keys[len(keys)/2:]
	for _, key := range one {
		if err := client.set(t.Context(), key, value); err != nil {
			return err
		}
	}
	if err := client.setAll(t.Context(), other, value); err != nil {
		return err
	}
	found, err := client.getAll(t.Context(), one)
	if err != nil {
		return err
	}
	for _, key := range other {
		seen, err := client.get(t.Context(), key)
		if err != nil {
			return err
		}
		found = append(found, seen)
	}
	found = slices.DeleteFunc(found, func(seen string) bool { return seen != value })
	if len(found) != len(keys) {
		t.Fatalf("%s: %d are found", value, len(found))
	}
	return nil
}

// atLast tries until nothing fails: what a client has of a dead node it may find out first.
func atLast(t *testing.T, try func() error) {
	t.Helper()
	end := time.Now().Add(2 * patience)
	for err := try(); err != nil; err = try() {
		if time.Now().After(end) {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func TestAClusterClientGoesOn(t *testing.T) {
	for name, open := range map[string]func(*testing.T) clusterClient{
		"go-redis": openGoRedis,
		"rueidis":  openRueidis,
	} {
		t.Run(name, func(t *testing.T) {
			client, keys := open(t), []string{}
			for i := range keysOfEach {
				keys = append(keys, fmt.Sprint(name, ":", i))
			}
			check(t, storesAndFindsAll(t, client, keys, "first"))
			for _, scene := range []string{"goes", "comes"} {
				end := writing(t, client, keys)
				play(t, scene)
				end()
				check(t, storesAndFindsAll(t, client, keys, scene))
			}
			for _, scene := range []string{"dies", "returns"} {
				end := writing(t, client, keys)
				play(t, scene)
				end()
				atLast(t, func() error { return storesAndFindsAll(t, client, keys, scene) })
			}
		})
	}
}
