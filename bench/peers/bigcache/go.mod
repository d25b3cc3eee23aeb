module cellar/bench/peers/bigcache

go 1.25.0

require (
	github.com/allegro/bigcache/v3 v3.1.0
	github.com/mailru/easyjson v0.9.1
	github.com/valyala/fasthttp v1.74.0
)

require (
	github.com/josharian/intern v1.0.0 // indirect
	github.com/klauspost/compress v1.20.0 // indirect
	github.com/molecule-man/go-brrr v1.0.1 // indirect
	github.com/valyala/bytebufferpool v1.0.0 // indirect
)
