package kafka

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/acl"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/share"
)

// shareFetch serves ShareFetch (key 78, KIP-932), versions 1 and 2. It acknowledges records that a
// member of a share group has acquired, and acquires others for it, in a share session. Version 2
// adds the acquire mode and the renewal of acquisition locks.
//
// Deviations from Kafka: MinBytes counts as 1, so available records are returned at once. The
// error messages of rejected acknowledgements differ.
func (c *call) shareFetch(req *kmsg.ShareFetchRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ShareFetchResponse)
	refused := func(code Code) kmsg.Response {
		resp.ErrorCode = int16(code)
		return resp
	}
	key, code := c.shareMember(req.GroupID, req.MemberID)
	switch {
	case code != 0:
		return refused(code)
	case req.IsRenewAck && (req.MaxWaitMillis != 0 || req.MinBytes != 0 || req.MaxBytes != 0 || req.MaxRecords != 0):
		return refused(InvalidRequest) // a request that renews locks must not fetch
	case req.ShareAcquireMode < 0 || req.ShareAcquireMode > acquireByRecord:
		return refused(InvalidRequest)
	}
	shares, err := c.s.cluster.Shares()
	if err != nil {
		return refused(Code(c.errorCode(err)))
	}
	plan, code := c.conn.broker.shares.fetch(c.conn, key, req)
	if code != 0 {
		return refused(code)
	}
	resp.AcquisitionLockTimeoutMillis = int32(shares.LockDuration(key.group).Milliseconds())
	f := &shareAnswer{c: c, shares: shares, key: key, holder: plan.holder, answers: map[sharePart]*kmsg.ShareFetchResponseTopicPartition{}}
	f.acknowledge(req)
	switch {
	case plan.final:
		if err := c.s.giveBack(c.ctx, key.group, plan.holder, plan.parts); err != nil {
			return refused(Code(c.errorCode(err)))
		}
	case !req.IsRenewAck:
		if plan.first {
			for _, p := range plan.parts {
				f.answer(p)
			}
		}
		switch err := f.fetch(req, plan.parts); {
		case errors.Is(err, errShareSessionOver):
			return refused(ShareSessionNotFound)
		case err != nil:
			return nil // the connection or the server is closing
		}
	}
	f.put(resp)
	return resp
}

// acquireByRecord is the highest acquire mode: at most MaxRecords records. Mode 0 acquires whole
// batches.
const acquireByRecord = 1

// shareMember returns the session key of a member. The group and member id must not be empty, and
// the client needs Read of the group.
func (c *call) shareMember(group, member *string) (shareSessionKey, Code) {
	switch {
	case group == nil || *group == "":
		return shareSessionKey{}, InvalidRequest
	case !c.allows(acl.Read, acl.Group, *group):
		return shareSessionKey{}, GroupAuthorizationFailed
	case member == nil || *member == "" || len(*member) > maxShareMemberID:
		return shareSessionKey{}, InvalidRequest
	}
	return shareSessionKey{*group, *member}, 0
}

// A shareAnswer is the response to a ShareFetch while it is built.
type shareAnswer struct {
	c       *call
	shares  *share.Coordinator
	key     shareSessionKey
	holder  string
	answers map[sharePart]*kmsg.ShareFetchResponseTopicPartition
	order   []sharePart
}

// answer returns the element of a partition in the response, which it adds if necessary.
func (f *shareAnswer) answer(p sharePart) *kmsg.ShareFetchResponseTopicPartition {
	a := f.answers[p]
	if a == nil {
		v := kmsg.NewShareFetchResponseTopicPartition()
		a = &v
		a.Partition, a.Records = p.number, []byte{}
		f.answers[p] = a
		f.order = append(f.order, p)
	}
	return a
}

// acknowledge applies the acknowledgements of the request.
func (f *shareAnswer) acknowledge(req *kmsg.ShareFetchRequest) {
	var todo []shareAcks
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			if len(p.AcknowledgementBatches) == 0 {
				continue
			}
			of := shareAcks{part: sharePart{t.TopicID, p.Partition}}
			for _, b := range p.AcknowledgementBatches {
				of.add(b.FirstOffset, b.LastOffset, b.AcknowledgeTypes)
			}
			todo = append(todo, of)
		}
	}
	for i, err := range f.c.acknowledgeShares(f.shares, f.key.group, f.holder, todo, req.IsRenewAck) {
		a := f.answer(todo[i].part)
		if err != nil {
			a.AcknowledgeErrorCode, a.AcknowledgeErrorMessage = f.c.shareCode(err), errorMessage(err)
			a.CurrentLeader.LeaderID, a.CurrentLeader.LeaderEpoch = f.c.shareLeader(Code(a.AcknowledgeErrorCode), todo[i].part)
		}
	}
}

// errShareSessionOver is returned if a session has ended during one of its fetches.
var errShareSessionOver = errors.New("kafka: the share session has ended")

// fetch acquires records, and waits for them. It returns errShareSessionOver, with nothing
// acquired, if the session has ended. Any other error means that the connection or the server is
// closing.
func (f *shareAnswer) fetch(req *kmsg.ShareFetchRequest, parts []sharePart) error {
	c := f.c
	fetch := share.FetchRequest{Group: f.key.group, Member: f.holder, MaxRecords: max(int(req.MaxRecords), 1),
		MaxWait: time.Duration(max(req.MaxWaitMillis, 0)) * time.Millisecond, WholeBatches: req.ShareAcquireMode != acquireByRecord, Existing: true,
		Reset: c.groups.ShareReset(f.key.group), Isolation: c.groups.ShareIsolation(f.key.group)}
	fetch.Reserve = func(ctx context.Context) (n int, err error) {
		want := min(max(int(req.MaxBytes), 1), maxFetchBytes)
		n, err = c.conn.transport.TakeSome(ctx, want, min(want, leastFetch))
		c.charged = n
		return n, err
	}
	fetch.Release = func(n int) {
		c.conn.transport.Give(n)
		c.charged -= n
	}
	for _, p := range each(c, parts) {
		tp, err := f.partition(p)
		if err != nil {
			a := f.answer(p)
			a.ErrorCode, a.ErrorMessage = c.shareCode(err), errorMessage(err)
			a.CurrentLeader.LeaderID, a.CurrentLeader.LeaderEpoch = c.shareLeader(Code(a.ErrorCode), p)
			continue
		}
		fetch.Partitions = append(fetch.Partitions, tp)
	}
	results, err := f.shares.FetchEach(c.ctx, fetch)
	if err != nil {
		return err
	}
	served := map[sharePart]bool{}
	for _, r := range results {
		p := sharePart{r.TopicID, r.Partition}
		switch {
		case r.Err != nil:
			a := f.answer(p)
			a.ErrorCode, a.ErrorMessage = c.shareCode(r.Err), errorMessage(r.Err)
			a.CurrentLeader.LeaderID, a.CurrentLeader.LeaderEpoch = c.shareLeader(Code(a.ErrorCode), p)
		case len(r.Deliveries) > 0:
			served[p] = true
			a := f.answer(p)
			a.Records = r.Bytes
			size := int64(req.BatchSize)
			if !fetch.WholeBatches {
				size = 0 // Kafka: SharePartition.acquire
			}
			for _, d := range r.Deliveries {
				a.AcquiredRecords = appendAcquired(a.AcquiredRecords, d, size)
			}
		}
	}
	if c.conn.broker.shares.turn(f.key, f.holder, served) {
		return nil
	}
	if err := f.shares.Leave(c.ctx, f.key.group, f.holder); err != nil { // no session releases them
		c.s.log.Info("acquired records are given back when their locks pass", "group", f.key.group, "member", f.key.member, "error", err)
	}
	return errShareSessionOver
}

// partition is sharePartition for a partition of the session, which keeps the names of topics.
// Only a client that may read the former name gets UNKNOWN_TOPIC_ID for a deleted topic. Kafka:
// CachedSharePartition, KafkaApis.handleShareFetchRequest.
func (f *shareAnswer) partition(p sharePart) (share.TopicPartition, error) {
	tp, err := f.c.sharePartition(p)
	if errors.Is(err, errNoShareTopic) {
		if name := f.c.conn.broker.shares.nameOf(f.key, p.id); name != "" && !f.c.allows(acl.Read, acl.Topic, name) {
			err = errShareNotReadable
		}
	}
	return tp, err
}

var (
	errNoShareTopic     = noText(UnknownTopicID)
	errShareNotReadable = refuse(TopicAuthorizationFailed, *authorizationText(TopicAuthorizationFailed))
)

// appendAcquired appends a range of acquired records, divided into ranges of size offsets;
// undivided if size is less than 1.
func appendAcquired(to []kmsg.ShareFetchResponseTopicPartitionAcquiredRecord, d share.Delivery, size int64) []kmsg.ShareFetchResponseTopicPartitionAcquiredRecord {
	for first := d.First; first <= d.Last; {
		last := d.Last
		if size > 0 {
			last = min(last, first+size-1)
		}
		to = append(to, kmsg.ShareFetchResponseTopicPartitionAcquiredRecord{FirstOffset: first, LastOffset: last, DeliveryCount: d.Count})
		first = last + 1
	}
	return to
}

// put copies the result to the response.
func (f *shareAnswer) put(resp *kmsg.ShareFetchResponse) {
	at := map[[16]byte]int{}
	for _, p := range f.order {
		i, ok := at[p.id]
		if !ok {
			i = len(resp.Topics)
			at[p.id] = i
			resp.Topics = append(resp.Topics, kmsg.ShareFetchResponseTopic{TopicID: p.id})
		}
		a := f.answers[p]
		resp.Topics[i].Partitions = append(resp.Topics[i].Partitions, *a)
		if id := a.CurrentLeader.LeaderID; id > 0 {
			f.c.addShareEndpoint(id, func(at endpoint) {
				for _, known := range resp.NodeEndpoints {
					if known.NodeID == id {
						return
					}
				}
				resp.NodeEndpoints = append(resp.NodeEndpoints, kmsg.ShareFetchResponseNodeEndpoint{NodeID: id, Host: at.host, Port: at.port, Rack: at.rack})
			})
		}
	}
}

func (c *call) addShareEndpoint(id int32, add func(endpoint)) {
	if at, ok := c.endpoint(id); ok {
		add(at)
	}
}

// sharePartition returns a partition if this broker leads it and the client may read its topic.
func (c *call) sharePartition(p sharePart) (share.TopicPartition, error) {
	name, ok := c.s.cluster.TopicName(p.id)
	if !ok {
		return share.TopicPartition{}, errNoShareTopic
	}
	if !c.allows(acl.Read, acl.Topic, name) {
		return share.TopicPartition{}, errShareNotReadable
	}
	tp := share.TopicPartition{TopicPartition: record.TopicPartition{Topic: name, Partition: p.number}, TopicID: p.id}
	switch leader, _, err := c.s.cluster.LeaderOfTopic(tp.TopicPartition, p.id); {
	case errors.Is(err, replication.ErrUnknownTopic):
		return share.TopicPartition{}, noText(UnknownTopicOrPartition)
	case err != nil:
		return share.TopicPartition{}, err
	case leader != c.broker:
		return share.TopicPartition{}, refuse(NotLeaderOrFollower, "Another broker leads the partition.")
	}
	return tp, nil
}

// shareLeader returns the leader and leader epoch of a partition with NOT_LEADER_OR_FOLLOWER; 0
// and 0 for other codes.
func (c *call) shareLeader(code Code, p sharePart) (id, epoch int32) {
	name, ok := c.s.cluster.TopicName(p.id)
	if code != NotLeaderOrFollower || !ok {
		return 0, 0
	}
	return c.leaderOf(record.TopicPartition{Topic: name, Partition: p.number})
}

// shareCode is errorCode for requests of share group members. A share-partition without a state
// has UNKNOWN_SERVER_ERROR, because members do not initialize states.
func (c *call) shareCode(err error) int16 {
	if errors.Is(err, share.ErrNotInitialized) {
		return int16(UnknownServerError)
	}
	return c.errorCode(err)
}
