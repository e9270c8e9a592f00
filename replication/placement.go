package replication

// place assigns replicas to partitions first, first+1, ...: each partition's leader is the next
// broker in turn, its followers are the brokers after that one, so that leaders and replicas are
// spread evenly. There must be at least factor brokers. It only computes.
func place(brokers []int32, first, partitions, factor int) [][]int32 {
	all := make([][]int32, partitions)
	for i := range all {
		replicas := make([]int32, factor)
		for j := range replicas {
			replicas[j] = brokers[(first+i+j)%len(brokers)]
		}
		all[i] = replicas
	}
	return all
}
