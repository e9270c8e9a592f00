package kafka

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/internal/clientmetrics"
)

func TestTelemetryReachesItsReceiver(t *testing.T) {
	pushes := make(chan TelemetryPush, 1)
	_, addr := serve(t, Config{Telemetry: Telemetry{Interval: time.Second, Receive: func(p TelemetryPush) { pushes <- p }}})
	sub := ask[*kmsg.GetTelemetrySubscriptionsResponse](t, addr, 0, kmsg.NewPtrGetTelemetrySubscriptionsRequest())
	require.NotZero(t, sub.ClientInstanceID)
	require.EqualValues(t, 1000, sub.PushIntervalMillis)
	require.Equal(t, []string{""}, sub.RequestedMetrics)

	push := func(edit func(*kmsg.PushTelemetryRequest)) Code {
		// the subscription of a new client
		sub := ask[*kmsg.GetTelemetrySubscriptionsResponse](t, addr, 0, kmsg.NewPtrGetTelemetrySubscriptionsRequest())
		req := kmsg.NewPtrPushTelemetryRequest()
		req.ClientInstanceID, req.SubscriptionID, req.Metrics = sub.ClientInstanceID, sub.SubscriptionID, []byte("metrics")
		edit(req)
		return Code(ask[*kmsg.PushTelemetryResponse](t, addr, 0, req).ErrorCode)
	}
	require.Equal(t, InvalidRequest, push(func(r *kmsg.PushTelemetryRequest) { r.ClientInstanceID = [16]byte{} }))
	require.Equal(t, InvalidRequest, push(func(r *kmsg.PushTelemetryRequest) { r.ClientInstanceID = [16]byte{15: 1} }))
	require.Equal(t, UnknownSubscriptionID, push(func(r *kmsg.PushTelemetryRequest) { r.SubscriptionID++ }))
	require.Equal(t, UnsupportedCompressionType, push(func(r *kmsg.PushTelemetryRequest) { r.CompressionType = 9 }))
	require.Equal(t, TelemetryTooLarge, push(func(r *kmsg.PushTelemetryRequest) { r.Metrics = make([]byte, clientmetrics.MaxPushBytes+1) }))
	require.Zero(t, push(func(r *kmsg.PushTelemetryRequest) { r.Metrics = nil }), "nobody is told of nothing")
	require.Empty(t, pushes)
	var instance [16]byte
	require.Zero(t, push(func(r *kmsg.PushTelemetryRequest) { r.Terminating, instance = true, r.ClientInstanceID }))
	got := <-pushes
	require.Equal(t, "metrics", string(got.Payload))
	require.True(t, got.Terminating)
	require.Equal(t, "test", got.ClientID)
	require.Equal(t, instance, got.Instance)
}

func TestTelemetryIsAdvertisedOnlyWithAReceiver(t *testing.T) {
	for _, with := range []bool{false, true} {
		cfg := Config{}
		if with {
			cfg.Telemetry.Receive = func(TelemetryPush) {}
		}
		_, addr := serve(t, cfg)
		var advertised int
		for _, k := range ask[*kmsg.ApiVersionsResponse](t, addr, 0, kmsg.NewPtrApiVersionsRequest()).ApiKeys {
			if Key(k.ApiKey) == GetTelemetrySubscriptions || Key(k.ApiKey) == PushTelemetry {
				advertised++
			}
		}
		require.Equal(t, with, advertised == 2)
	}
}
