# Builds the server from the sources: docker build --tag cellar .
#
# The image has the program and the licence alone, as the one of `make package`.
FROM rust:1.95-bookworm AS build
WORKDIR /sources
COPY . .
# Linked statically, as in the Makefile, so that the image needs no libraries.
RUN target=$(rustc -vV | sed -n 's/^host: //p') \
    && cargo build --release --locked --package cellar --target "$target" \
        --config "target.$target.rustflags=['-C', 'target-feature=+crt-static']" \
    && strip -o /cellar "target/$target/release/cellar"

FROM scratch
COPY --from=build /cellar /cellar
COPY LICENSE /LICENSE
ENV CELLAR_MEMORY=auto CELLAR_LAME_DUCK=2s
USER 65532:65532
EXPOSE 6379 8080 11211
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=3s CMD ["/cellar", "healthcheck"]
ENTRYPOINT ["/cellar"]
