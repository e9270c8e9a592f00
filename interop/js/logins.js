// Connects with kafkajs as lines of its input say, and prints "NUMBER WHAT BECAME OF IT" for each. A line is a number, the address, mechanism,
// user, password, file of the authority, file of the client's certificate, topic, group, and number of records, with tabs between them.
const { Kafka, logLevel } = require('kafkajs')
const fs = require('fs')

const say = e => {
  for (let c = e; c; c = c.cause) {
    // refused by OAUTHBEARER it goes on as if it were not
    if (c.name === 'KafkaJSSASLAuthenticationError' || /current SASL state/.test(c.message)) return 'not authenticated'
    if (/AUTHORIZATION_FAILED$/.test(c.type || '')) return 'not authorized'
    if (['KafkaJSConnectionError', 'KafkaJSConnectionClosedError', 'KafkaJSRequestTimeoutError'].includes(c.name)) return 'not connected'
  }
  return String(e)
}

async function become([, addr, mechanism, user, password, ca, certificate, topic, group, writes]) {
  const conf = { brokers: [addr], logLevel: logLevel.NOTHING, retry: { retries: 1, initialRetryTime: 50 }, connectionTimeout: 10000, reauthenticationThreshold: 1000 }
  if (ca) {
    conf.ssl = { ca: [fs.readFileSync(ca)] }
    if (certificate) conf.ssl.cert = conf.ssl.key = fs.readFileSync(certificate)
  }
  if (mechanism === 'OAUTHBEARER') conf.sasl = { mechanism: 'oauthbearer', oauthBearerProvider: async () => ({ value: password }) }
  else if (mechanism) conf.sasl = { mechanism: mechanism.toLowerCase(), username: user, password }
  const kafka = new Kafka(conf)
  const producer = kafka.producer()
  const consumer = kafka.consumer({ groupId: group, maxWaitTimeInMs: 50 })
  try {
    await producer.connect()
    for (let i = 0; i < writes; i++) {
      await producer.send({ topic, messages: [{ value: 'v' + i }] })
      if (writes > 10) await new Promise(done => setTimeout(done, 100))
    }
    await consumer.connect()
    await consumer.subscribe({ topic, fromBeginning: true })
    let got = 0
    return await new Promise((resolve, reject) => {
      consumer.on('consumer.crash', e => reject(e.payload.error))
      consumer.run({
        autoCommit: false,
        eachMessage: async ({ partition, message }) => {
          await consumer.commitOffsets([{ topic, partition, offset: String(Number(message.offset) + 1) }])
          if (++got === Number(writes)) resolve('served')
        },
      }).catch(reject)
    })
  } finally {
    await producer.disconnect().catch(() => {})
    await consumer.disconnect().catch(() => {})
  }
}

require('readline').createInterface({ input: process.stdin }).on('line', line => {
  const l = line.split('\t')
  become(l).catch(say).then(became => console.log(l[0] + ' ' + became.replaceAll('\n', ' ')))
}).on('close', () => process.exit(0))
