// The calls of a Hive Metastore that Tidegate makes. Only mark_cleaned changes something: it ends
// an entry of the queue. Hive 3.1.3 does not have that call.
//
// Names and field numbers are Hive's own (hive_metastore.thrift of 3.1.3 and 4.0.1). What is not
// needed is left out: Thrift skips fields that a struct does not declare. A field that only newer
// versions send is None with older ones.

exception MetaException {1: string message}
exception NoSuchObjectException {1: string message}
exception NoSuchTxnException {1: string message}
exception ConfigValSecurityException {1: string message}

// a lock may have several components, each a row of its own with the same lockid; what else is in a
// row is passed over, because a look may find very many of them
struct ShowLocksResponseElement {
  1: i64 lockid,
  2: string dbname,
  3: string tablename,       // none: the lock is on the whole database
  4: string partname,        // none: it is on the whole table
  6: i32 type,               // 1 shared read, 2 shared write, 3 exclusive, 4 exclusive write
  7: i64 txnid,              // 0 or none: it belongs to no transaction
  8: i64 lastheartbeat,      // ms of the epoch, by the clock of the Metastore's database
  9: i64 acquiredat,         // by the same clock; none: it is waited for
  10: string user,
  11: string hostname
}
struct ShowLocksRequest {
  1: optional string dbname,
  2: optional string tablename,
  3: optional string partname,
  4: optional bool isExtended = 0,
  5: optional i64 txnid
}
struct ShowLocksResponse {1: list<ShowLocksResponseElement> locks}

struct ShowCompactResponseElement {
  1: string dbname,
  2: string tablename,
  3: string partitionname,
  4: i32 type,               // 1 minor, 2 major, 3 rebalance, 4 clean-up of aborted transactions
  5: string state,
  9: i64 hightestTxnId,      // the highest WRITE id, whatever its name says
  13: i64 id,
  21: i64 nextTxnId,         // from 4.0 on
  22: i64 txnId,             // from 4.0 on: the transaction of the compaction
  23: i64 commitTime,        // from 4.0 on
  24: i64 hightestWriteId    // from 4.0 on
}
struct ShowCompactRequest {  // filters: from 4.0 on
  1: optional i64 id,
  3: optional string dbName,
  4: optional string tbName
}
struct ShowCompactResponse {1: list<ShowCompactResponseElement> compacts}

struct TxnInfo {
  1: i64 id,
  2: i32 state,              // 1 committed, 2 aborted, 3 open
  3: string user,
  4: string hostname,
  5: string agentInfo,
  8: i64 startedTime,
  9: i64 lastHeartbeatTime   // ms of the epoch, by the clock of the Metastore's database
}
struct GetOpenTxnsInfoResponse {
  1: i64 txn_high_water_mark,
  2: list<TxnInfo> open_txns // aborted ones too
}

struct GetOpenTxnsResponse {
  1: i64 txn_high_water_mark,
  2: list<i64> open_txns,    // aborted ones too
  3: optional i64 min_open_txn,
  4: binary abortedBits
}

struct GetValidWriteIdsRequest {
  1: list<string> fullTableNames,
  2: string validTxnList,    // 3.1.3 requires it
  3: optional i64 writeId
}
struct TableValidWriteIds {
  1: string fullTableName,
  2: i64 writeIdHighWaterMark,
  3: list<i64> invalidWriteIds,
  4: i64 minOpenWriteId,
  5: binary abortedBits      // a little-endian bit set over invalidWriteIds
}
struct GetValidWriteIdsResponse {1: list<TableValidWriteIds> tblValidWriteIds}

struct StorageDescriptor {2: string location, 3: string inputFormat}
struct Table {
  1: string tableName,
  2: string dbName,
  7: StorageDescriptor sd,
  9: map<string, string> parameters,
  12: string tableType,
  17: string catName
}
struct ClientCapabilities {1: list<i32> values}
struct GetTableRequest {
  1: string dbName,
  2: string tblName,
  3: optional ClientCapabilities capabilities,
  4: optional string catName,
  8: optional list<string> processorCapabilities,
  9: optional string processorIdentifier
}
struct GetTableResult {1: Table table}
struct CompactionInfoStruct {
  1: i64 id,
  2: string dbname,
  3: string tablename,
  4: optional string partitionname,
  5: i32 type,               // as in ShowCompactResponseElement
  12: optional i64 highestWriteId
}
struct Partition {1: list<string> values, 6: StorageDescriptor sd, 7: map<string, string> parameters}

service Metastore {
  list<string> get_all_databases() throws (1: MetaException o1),
  list<string> get_all_tables(1: string db_name) throws (1: MetaException o1),
  string get_metastore_db_uuid() throws (1: MetaException o1),
  string get_config_value(1: string name, 2: string defaultValue)
      throws (1: ConfigValSecurityException o1),
  ShowLocksResponse show_locks(1: ShowLocksRequest rqst),
  ShowCompactResponse show_compact(1: ShowCompactRequest rqst),
  GetOpenTxnsInfoResponse get_open_txns_info(),
  GetOpenTxnsResponse get_open_txns(),
  GetValidWriteIdsResponse get_valid_write_ids(1: GetValidWriteIdsRequest rqst)
      throws (1: NoSuchTxnException o1, 2: MetaException o2),
  GetTableResult get_table_req(1: GetTableRequest req)
      throws (1: MetaException o1, 2: NoSuchObjectException o2),
  list<Partition> get_partitions(1: string db_name, 2: string tbl_name, 3: i16 max_parts = -1)
      throws (1: NoSuchObjectException o1, 2: MetaException o2),
  Partition get_partition_by_name(1: string db_name, 2: string tbl_name, 3: string part_name)
      throws (1: MetaException o1, 2: NoSuchObjectException o2),
  void mark_cleaned(1: CompactionInfoStruct cr) throws (1: MetaException o1)
}
