// Checks with kafkajs: node interop.js ADDRESS prints one line "ok NAME" or "failed NAME REASON" for each.
const { Kafka, CompressionTypes, AssignerProtocol, logLevel } = require('kafkajs')
const { randomUUID } = require('crypto')
const assert = require('assert')

process.env.KAFKAJS_NO_PARTITIONER_WARNING = '1'
const addr = process.argv[2]
const kafka = new Kafka({ clientId: 'kafkajs', brokers: [addr], logLevel: logLevel.NOTHING, retry: { initialRetryTime: 50, retries: 10 } })
const fresh = (prefix) => `${prefix}-${randomUUID()}`
const sleep = (ms) => new Promise((done) => setTimeout(done, ms))

async function eventually(what, holds) {
  for (const end = Date.now() + 40000; !(await holds()); await sleep(20)) assert(Date.now() < end, what)
}

async function withAdmin(fn) {
  const admin = kafka.admin()
  await admin.connect()
  try { return await fn(admin) } finally { await admin.disconnect() }
}

// known waits for a topic: Kafka's brokers learn of a new one a little later.
const known = (a, topic, partitions) => eventually('the topic is known', async () => {
  try { return (await a.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions.length === partitions } catch (e) { return false }
})

async function newTopic(partitions) {
  const topic = fresh('topic')
  await withAdmin(async (a) => {
    await a.createTopics({ topics: [{ topic, numPartitions: partitions }], waitForLeaders: false })
    await known(a, topic, partitions)
  })
  return topic
}

async function send(topic, options, messages) {
  const p = kafka.producer(options.producer || {})
  await p.connect()
  try { return await p.send({ topic, messages, ...options.send }) } finally { await p.disconnect() }
}

const numbered = (n) => Array.from({ length: n }, (_, i) => ({ key: `k${i}`, value: `v${i}`, partition: 0, headers: { h: `${i}` } }))

// member starts a group member that collects what it reads.
async function member(topic, groupId, options = {}) {
  const m = { seen: [], owned: 0 }
  m.c = kafka.consumer({ groupId, heartbeatInterval: 200, sessionTimeout: 10000, rebalanceTimeout: 10000, maxWaitTimeInMs: 200, ...options })
  m.c.on(m.c.events.GROUP_JOIN, (e) => { m.owned = (e.payload.memberAssignment[topic] || []).length })
  await m.c.connect()
  await m.c.subscribe({ topics: [topic], fromBeginning: true })
  await m.c.run({ eachMessage: async ({ partition, message }) => { m.seen.push([partition, message.offset, `${message.key}`, `${message.value}`, `${message.headers.h}`]) } })
  return m
}

async function roundTrip(options) {
  const topic = await newTopic(1)
  await send(topic, options, numbered(200))
  const m = await member(topic, fresh('group'))
  try {
    await eventually('everything is read', () => m.seen.length >= 200)
    assert.deepStrictEqual(m.seen, numbered(200).map((x, i) => [0, `${i}`, x.key, x.value, x.headers.h]))
  } finally { await m.c.disconnect() }
}

const checks = {
  'produce-and-consume': () => roundTrip({}),
  'produce-gzip': () => roundTrip({ send: { compression: CompressionTypes.GZIP } }),
  'produce-idempotent': () => roundTrip({ producer: { idempotent: true, maxInFlightRequests: 1 } }),
  'produce-acks-0': () => roundTrip({ send: { acks: 0 } }),
  'group': async () => {
    const topic = await newTopic(4)
    const groupId = fresh('group')
    const one = await member(topic, groupId)
    let two
    try {
      await eventually('one member has everything', () => one.owned === 4)
      two = await member(topic, groupId)
      await eventually('two members share', () => one.owned === 2 && two.owned === 2)
      await two.c.disconnect()
      two = null
      await eventually('the first has everything again', () => one.owned === 4)
    } finally {
      if (two) await two.c.disconnect()
      await one.c.disconnect()
    }
  },
  'transactions': async () => {
    const topic = await newTopic(1)
    const groupId = fresh('group')
    const p = kafka.producer({ transactionalId: fresh('txn'), maxInFlightRequests: 1, idempotent: true })
    await p.connect()
    const want = []
    for (let i = 0; i < 9; i++) {
      const txn = await p.transaction()
      const messages = Array.from({ length: 10 }, (_, j) => ({ value: `v${i}-${j}`, partition: 0 }))
      await txn.send({ topic, messages })
      await txn.sendOffsets({ consumerGroupId: groupId, topics: [{ topic, partitions: [{ partition: 0, offset: `${i}` }] }] })
      if (i % 3 === 2) await txn.abort()
      else {
        await txn.commit()
        want.push(...messages.map((m) => m.value))
      }
    }
    await p.disconnect()
    const m = await member(topic, fresh('group'), { readUncommitted: false })
    try {
      await eventually('everything committed is read', () => m.seen.length >= want.length)
      assert.deepStrictEqual(m.seen.map((x) => x[3]), want)
    } finally { await m.c.disconnect() }
    await withAdmin((a) => eventually('the offset is committed', async () => (await a.fetchOffsets({ groupId, topics: [topic] }))[0].partitions[0].offset === '7'))
  },
  'admin': () => withAdmin(async (a) => {
    const topic = fresh('topic')
    const groupId = fresh('group')
    assert.strictEqual(await a.createTopics({ topics: [{ topic, numPartitions: 2, configEntries: [{ name: 'retention.ms', value: '1234567' }] }], waitForLeaders: false }), true)
    await known(a, topic, 2)
    assert.strictEqual(await a.createTopics({ topics: [{ topic }] }), false)
    assert((await a.listTopics()).includes(topic))
    await send(topic, {}, numbered(10))
    const offsets = await a.fetchTopicOffsets(topic)
    assert.deepStrictEqual(offsets.map((o) => [o.partition, o.low, o.high]).sort(), [[0, '0', '10'], [1, '0', '0']])
    await a.fetchTopicOffsetsByTimestamp(topic, Date.now() - 60000)
    const configs = await a.describeConfigs({ includeSynonyms: true, resources: [{ type: 2, name: topic, configNames: ['retention.ms'] }] })
    assert.strictEqual(configs.resources[0].configEntries[0].configValue, '1234567')
    await a.alterConfigs({ validateOnly: false, resources: [{ type: 2, name: topic, configEntries: [{ name: 'retention.ms', value: '7654321' }] }] })
    await a.createPartitions({ topicPartitions: [{ topic, count: 3 }] })
    await a.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '4' }] })
    const cluster = await a.describeCluster()
    assert(cluster.brokers.length > 0)
    const m = await member(topic, groupId)
    await eventually('the group reads', () => m.seen.length === 6)
    const described = await a.describeGroups([groupId])
    assert.strictEqual(described.groups[0].state, 'Stable')
    await m.c.disconnect()
    assert((await a.listGroups()).groups.some((g) => g.groupId === groupId))
    await a.setOffsets({ groupId, topic, partitions: [{ partition: 0, offset: '5' }] })
    const fetched = await a.fetchOffsets({ groupId, topics: [topic] })
    assert.strictEqual(fetched[0].partitions.find((p) => p.partition === 0).offset, '5')
    await a.deleteGroups([groupId])
    await a.deleteTopics({ topics: [topic] })
  }),
}

async function main() {
  await Promise.all(Object.entries(checks).map(async ([name, check]) => {
    try {
      await check()
      console.log(`ok ${name}`)
    } catch (e) {
      console.log(`failed ${name} ${`${e.stack}`.replace(/\s+/g, ' ').slice(0, 500)}`)
    }
  }))
  process.exit(0)
}

main()
