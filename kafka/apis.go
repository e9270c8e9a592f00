package kafka

// apis is what is served, in the version ranges of Kafka 4.3.
var apis = []api{
	{key: Produce, min: 3, max: 13, start: produce},
	{key: Fetch, min: 4, max: 18, try: tryFetch, serve: handle((*call).fetch), waits: true},
	{key: ListOffsets, min: 1, max: 11, serve: handle((*call).listOffsets)},
	{key: Metadata, min: 0, max: 13, serve: handle((*call).metadata)},
	{key: ApiVersions, min: 0, max: 4, serve: handle((*call).apiVersions)},
	{key: InitProducerID, min: 0, max: 5, serve: handle((*call).initProducerID)},
}
