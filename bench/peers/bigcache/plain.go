package main

import (
	"bytes"
	"strings"
	"sync"
	"time"

	"github.com/allegro/bigcache/v3"
)

// What keeps messages: BigCache or a plain map. It keeps neither the id nor the content it is given.
type store interface {
	Get(id string) ([]byte, error)
	Set(id string, content []byte) error
}

// How often the plain map is swept.
const sweepEvery = time.Second

// An ordinary cache, as one would write it first: a map behind a lock, and a sweep that looks at all
// of it. The collector of garbage looks at all of it, too.
type plainMap struct {
	lock     sync.RWMutex
	life     time.Duration
	messages map[string]plainMessage
}

type plainMessage struct {
	content  []byte
	deadline time.Time
}

func newPlainMap(life time.Duration) *plainMap {
	plain := &plainMap{life: life, messages: map[string]plainMessage{}}
	go func() {
		for now := range time.Tick(sweepEvery) {
			plain.sweep(now)
		}
	}()
	return plain
}

func (p *plainMap) Get(id string) ([]byte, error) {
	p.lock.RLock()
	found, ok := p.messages[id]
	p.lock.RUnlock()
	if !ok || time.Now().After(found.deadline) {
		return nil, bigcache.ErrEntryNotFound
	}
	return found.content, nil
}

func (p *plainMap) Set(id string, content []byte) error {
	message := plainMessage{bytes.Clone(content), time.Now().Add(p.life)}
	id = strings.Clone(id)
	p.lock.Lock()
	p.messages[id] = message
	p.lock.Unlock()
	return nil
}

func (p *plainMap) sweep(now time.Time) {
	p.lock.Lock()
	defer p.lock.Unlock()
	for id, message := range p.messages {
		if now.After(message.deadline) {
			delete(p.messages, id)
		}
	}
}
