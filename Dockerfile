# A Kafka broker in a few megabytes, for tests and development: nothing in the image but the program.
#
#   docker build -t strata .
#   docker run -p 9092:9092 -v strata:/data strata            # kept in the volume
#   docker run -p 9092:9092 strata serve --memory             # nothing is kept
#
# Every flag of `strata serve` can be given as STRATA_SERVE_..., see `docker run strata serve --help`.
FROM golang:1.26 AS build
WORKDIR /src
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags=-s -o /strata ./cmd/strata && mkdir /data

FROM scratch
COPY --from=build /strata /strata
COPY --from=build --chown=65532:65532 /data /data
USER 65532:65532
VOLUME /data
EXPOSE 9092
ENV STRATA_SERVE_DIR=/data
ENV STRATA_SERVE_LISTEN=0.0.0.0:9092
ENV STRATA_SERVE_ADVERTISE=localhost:9092
ENV STRATA_SERVE_ALLOW_PUBLIC=true
ENV STRATA_SERVE_LENIENT_REPLICATION=true
ENV STRATA_BOOTSTRAP=localhost:9092
HEALTHCHECK --interval=5s --timeout=5s --start-period=10s CMD ["/strata", "cluster", "--timeout", "3s"]
ENTRYPOINT ["/strata"]
CMD ["serve"]
