package main

import (
	"bytes"
	"errors"
	"net"
	"unsafe"

	"github.com/allegro/bigcache/v3"
	"github.com/valyala/fasthttp"
)

type fastHandler struct{ cache store }

func fastServer(cache store) func(net.Listener) error {
	server := fasthttp.Server{
		Handler:               fastHandler{cache}.serve,
		MaxRequestBodySize:    bodyBytesMax,
		NoDefaultServerHeader: true,
	}
	return server.Serve
}

func (h fastHandler) serve(ctx *fasthttp.RequestCtx) {
	if ctx.IsPost() && string(ctx.Path()) == collection {
		h.post(ctx)
		return
	}
	if string(ctx.Path()) == health {
		ctx.SetBodyString(healthy)
		return
	}
	id, ok := bytes.CutPrefix(ctx.Path(), []byte(entries))
	if !ok || len(id) == 0 {
		ctx.Error("no such path", fasthttp.StatusNotFound)
		return
	}
	switch {
	case ctx.IsGet():
		h.get(ctx, text(id))
	case ctx.IsPut():
		h.store(ctx, text(id), ctx.PostBody())
	default:
		ctx.Error("no such method", fasthttp.StatusMethodNotAllowed)
	}
}

func (h fastHandler) get(ctx *fasthttp.RequestCtx, id string) {
	content, err := h.cache.Get(id)
	if err != nil {
		status := fasthttp.StatusInternalServerError
		if errors.Is(err, bigcache.ErrEntryNotFound) {
			status = fasthttp.StatusNotFound
		}
		ctx.Error(err.Error(), status)
		return
	}
	ctx.Response.SetBodyRaw(content)
}

func (h fastHandler) post(ctx *fasthttp.RequestCtx) {
	found, err := parseMessage(ctx.PostBody())
	if err != nil {
		ctx.Error(err.Error(), fasthttp.StatusBadRequest)
		return
	}
	h.store(ctx, found.id, found.content)
}

func (h fastHandler) store(ctx *fasthttp.RequestCtx, id string, content []byte) {
	if err := h.cache.Set(id, content); err != nil {
		ctx.Error(err.Error(), fasthttp.StatusInternalServerError)
		return
	}
	ctx.SetStatusCode(fasthttp.StatusCreated)
}

// The bytes as a string without a copy; a store keeps none of its keys.
func text(bytes []byte) string {
	return unsafe.String(unsafe.SliceData(bytes), len(bytes))
}
