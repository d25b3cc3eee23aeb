package main

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"

	"github.com/allegro/bigcache/v3"
)

var errIncomplete = errors.New("a message has an id and a content")

// Buffers for bodies: BigCache copies what it stores.
var bodies = sync.Pool{New: func() any { return new(bytes.Buffer) }}

type netHandler struct{ cache store }

func netServer(cache store) func(net.Listener) error {
	server := http.Server{Handler: netHandler{cache}}
	return server.Serve
}

func (h netHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == collection && r.Method == http.MethodPost {
		h.withBody(w, r, h.post)
		return
	}
	if r.URL.Path == health {
		io.WriteString(w, healthy)
		return
	}
	id, ok := strings.CutPrefix(r.URL.Path, entries)
	if !ok || id == "" {
		http.Error(w, "no such path", http.StatusNotFound)
		return
	}
	switch r.Method {
	case http.MethodGet:
		h.get(w, id)
	case http.MethodPut:
		h.withBody(w, r, func(body []byte) (int, error) {
			return http.StatusCreated, h.cache.Set(id, body)
		})
	default:
		http.Error(w, "no such method", http.StatusMethodNotAllowed)
	}
}

func (h netHandler) get(w http.ResponseWriter, id string) {
	content, err := h.cache.Get(id)
	if err != nil {
		status := http.StatusInternalServerError
		if errors.Is(err, bigcache.ErrEntryNotFound) {
			status = http.StatusNotFound
		}
		http.Error(w, err.Error(), status)
		return
	}
	w.Header()["Content-Type"] = textPlain
	w.Write(content)
}

// Set whole, so that net/http does not look at the content to guess its type.
var textPlain = []string{"text/plain; charset=utf-8"}

func (h netHandler) post(body []byte) (int, error) {
	found, err := parseMessage(body)
	if err != nil {
		return http.StatusBadRequest, err
	}
	return http.StatusCreated, h.cache.Set(found.id, found.content)
}

// Reads the body and answers with what `use` makes of it.
func (h netHandler) withBody(
	w http.ResponseWriter,
	r *http.Request,
	use func([]byte) (int, error),
) {
	if r.ContentLength > bodyBytesMax {
		http.Error(w, "the body is too long", http.StatusRequestEntityTooLarge)
		return
	}
	buffer := bodies.Get().(*bytes.Buffer)
	defer bodies.Put(buffer)
	buffer.Reset()
	if _, err := buffer.ReadFrom(io.LimitReader(r.Body, bodyBytesMax)); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	status, err := use(buffer.Bytes())
	if err != nil {
		if status == http.StatusCreated {
			status = http.StatusInternalServerError
		}
		http.Error(w, err.Error(), status)
		return
	}
	w.WriteHeader(status)
}
