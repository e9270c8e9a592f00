package kafkatest

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/kafka"
)

func TestReleasesHaveKafkasVersions(t *testing.T) {
	for r, want := range map[Release]*kversion.Versions{Kafka0_11: kversion.V0_11_0(), Kafka1_1: kversion.V1_1_0(), Kafka2_0: kversion.V2_0_0(),
		Kafka2_4: kversion.V2_4_0(), Kafka2_8: kversion.V2_8_0(), Kafka3_0: kversion.V3_0_0(), Kafka3_6: kversion.V3_6_0(),
		Kafka3_9: kversion.V3_9_0(), Kafka4_0: kversion.V4_0_0()} {
		for i, key := range releaseKeys {
			v, ok := want.LookupMaxKeyVersion(int16(key))
			if !ok {
				v = -1
			}
			require.Equal(t, v, releaseVersions[r][i], "%s of release %d", key, r)
		}
	}
}

func TestEveryReleaseSaysSomethingOfEveryAPI(t *testing.T) {
	require.ElementsMatch(t, served, releaseKeys)
	for r := Kafka0_11; r <= Redpanda24; r++ {
		require.Len(t, releaseVersions[r], len(releaseKeys), "release %d", r)
	}
}

func TestOwnCapsWinOverTheReleases(t *testing.T) {
	require.Empty(t, versionCaps(Latest, nil))
	caps := versionCaps(Kafka2_0, map[kafka.Key]int16{kafka.Fetch: 4, kafka.InitProducerID: -1})
	require.Equal(t, int16(6), caps[int16(kafka.Produce)])
	require.Equal(t, int16(4), caps[int16(kafka.Fetch)])
	require.Equal(t, int16(-1), caps[int16(kafka.InitProducerID)])
}

// An edit of a test changes one answer only, neither the next answer nor another server's.
func TestEditedVersionsAreThoseOfOneAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fetch := func(s *Server) int16 {
			cl, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...), kgo.Dialer(s.Dial))
			require.NoError(t, err)
			defer cl.Close()
			req := kmsg.NewPtrApiVersionsRequest()
			req.ClientSoftwareName, req.ClientSoftwareVersion = "test", "1"
			resp, err := cl.Broker(1).Request(t.Context(), req)
			require.NoError(t, err)
			for _, k := range resp.(*kmsg.ApiVersionsResponse).ApiKeys {
				if kafka.Key(k.ApiKey) == kafka.Fetch {
					return k.MaxVersion
				}
			}
			return -1
		}
		s, other := New(t, Config{Pipe: true}), New(t, Config{Pipe: true})
		edited := s.Fault(Fault{APIs: []kafka.Key{kafka.ApiVersions}, Times: Always, Edit: func(_ kmsg.Request, resp kmsg.Response) {
			keys := resp.(*kmsg.ApiVersionsResponse).ApiKeys
			for i := range keys {
				if kafka.Key(keys[i].ApiKey) == kafka.Fetch {
					keys[i].MaxVersion = 4
				}
			}
		}})
		require.Equal(t, int16(4), fetch(s))
		edited.Remove()
		require.Equal(t, int16(18), fetch(s))
		require.Equal(t, int16(18), fetch(other))
	})
}
