package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// describeLogDirs returns the sizes of the broker's replicas. From version 4 on it also returns
// the total and usable bytes of the disk. A broker has one directory. Replicas that were never
// written have size 0; damaged ones are left out.
//
// If the disk rejects writes, for example because it is full, the directory has the error
// KAFKA_STORAGE_ERROR. Kafka returns that for a directory that it has taken offline. Key 35,
// versions 1 to 5.
func (c *call) describeLogDirs(req *kmsg.DescribeLogDirsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.DescribeLogDirsResponse)
	dir := kmsg.NewDescribeLogDirsResponseDir()
	dir.Dir = c.s.cluster.LogDir(c.broker)
	dir.TotalBytes, dir.UsableBytes = c.s.cluster.Space(c.broker)
	if err := c.s.cluster.TryDisk(c.ctx, c.broker); err != nil && c.ctx.Err() == nil {
		dir.ErrorCode = int16(KafkaStorageError)
	}
	wanted := map[record.TopicPartition]bool{}
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			wanted[record.TopicPartition{Topic: t.Topic, Partition: p}] = true
		}
	}
	infos, err := c.wantedTopics(req)
	if err != nil {
		return c.hangUp()
	}
	for _, info := range each(c, infos) {
		answer := kmsg.NewDescribeLogDirsResponseDirTopic()
		answer.Topic = info.Name
		for _, p := range each(c, info.Partitions) {
			if req.Topics != nil && !wanted[record.TopicPartition{Topic: info.Name, Partition: p.Partition}] {
				continue
			}
			size, here := c.replicaSize(info.Name, p.Partition)
			if !here {
				continue
			}
			ap := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
			ap.Partition, ap.Size = p.Partition, size
			answer.Partitions = append(answer.Partitions, ap)
		}
		if len(answer.Partitions) > 0 {
			dir.Topics = append(dir.Topics, answer)
		}
	}
	resp.Dirs = append(resp.Dirs, dir)
	return resp
}

// replicaSize returns the size of the broker's replica of a partition, false if it has no readable
// replica.
func (c *call) replicaSize(name string, partition int32) (size int64, here bool) {
	for _, r := range c.s.cluster.Status(name, partition).Copies {
		if r.Broker == c.broker && r.Err == nil {
			return r.SizeBytes, true
		}
	}
	return 0, false
}

// wantedTopics returns the existing topics of the request.
func (c *call) wantedTopics(req *kmsg.DescribeLogDirsRequest) ([]topic.Info, error) {
	if req.Topics == nil {
		return c.s.cluster.Topics(c.ctx)
	}
	var infos []topic.Info
	seen := map[string]bool{}
	for _, t := range each(c, req.Topics) {
		if seen[t.Topic] {
			continue
		}
		seen[t.Topic] = true
		if info, err := c.s.cluster.Topic(c.ctx, t.Topic); err == nil {
			infos = append(infos, info)
		} else if codeOf(err) != UnknownTopicOrPartition {
			return nil, err
		}
	}
	return infos, nil
}
