// What engines call to change a Metastore: for tests only, with Hive's own names and numbers.
include "metastore.thrift"

exception InvalidOperationException {1: string message}
exception AlreadyExistsException {1: string message}
exception InvalidObjectException {1: string message}
exception TxnAbortedException {1: string message}
exception NoSuchLockException {1: string message}
exception TxnOpenException {1: string message}

struct OpenTxnRequest {
  1: i32 num_txns, 2: string user, 3: string hostname, 4: optional string agentInfo,
  7: optional i32 txn_type
}
struct OpenTxnsResponse {1: list<i64> txn_ids}
struct CommitTxnRequest {1: i64 txnid}
struct AbortTxnRequest {1: i64 txnid}
struct LockComponent {
  1: i32 type, 2: i32 level, 3: string dbname, 4: optional string tablename,
  5: optional string partitionname, 6: optional i32 operationType = 5,
  7: optional bool isTransactional = 0
}
struct LockRequest {
  1: list<LockComponent> component, 2: optional i64 txnid, 3: string user, 4: string hostname,
  5: optional string agentInfo
}
struct LockResponse {1: i64 lockid, 2: i32 state}
struct UnlockRequest {1: i64 lockid}
struct HeartbeatRequest {1: optional i64 lockid, 2: optional i64 txnid}
struct AllocateTableWriteIdsRequest {1: string dbName, 2: string tableName, 3: optional list<i64> txnIds}
struct TxnToWriteId {1: i64 txnId, 2: i64 writeId}
struct AllocateTableWriteIdsResponse {1: list<TxnToWriteId> txnToWriteIds}
struct CompactionRequest {
  1: string dbname, 2: string tablename, 3: optional string partitionname, 4: i32 type,
  5: optional string runas
}
struct CompactionResponse {1: i64 id, 2: string state, 3: bool accepted}
struct FindNextCompactRequest {1: optional string workerId, 2: optional string workerVersion}
struct CompactionInfoStruct {
  1: i64 id, 2: string dbname, 3: string tablename, 4: optional string partitionname, 5: i32 type,
  6: optional string runas, 7: optional string properties, 8: optional bool toomanyaborts,
  9: optional string state, 10: optional string workerId, 11: optional i64 start,
  12: optional i64 highestWriteId, 13: optional string errorMessage, 14: optional bool hasoldabort,
  15: optional i64 enqueueTime, 16: optional i64 retryRetention
}
struct OptionalCompactionInfoStruct {1: optional CompactionInfoStruct ci}

struct FieldSchema {1: string name, 2: string type, 3: string comment}
struct SerDeInfo {1: string name, 2: string serializationLib, 3: map<string, string> parameters}
struct Order {1: string col, 2: i32 order}
struct StorageDescriptor {
  1: list<FieldSchema> cols, 2: optional string location, 3: string inputFormat,
  4: string outputFormat, 5: bool compressed, 6: i32 numBuckets, 7: SerDeInfo serdeInfo,
  8: list<string> bucketCols, 9: list<Order> sortCols, 10: map<string, string> parameters
}
struct Table {
  1: string tableName, 2: string dbName, 3: string owner, 4: i32 createTime, 5: i32 lastAccessTime,
  6: i32 retention, 7: StorageDescriptor sd, 8: list<FieldSchema> partitionKeys,
  9: map<string, string> parameters, 12: string tableType
}
struct CreateTableRequest {
  1: Table table, 9: optional list<string> processorCapabilities,
  10: optional string processorIdentifier
}
struct Partition {
  1: list<string> values, 2: string dbName, 3: string tableName, 4: i32 createTime,
  5: i32 lastAccessTime, 6: StorageDescriptor sd, 7: map<string, string> parameters
}
struct Database {
  1: string name, 2: string description, 3: optional string locationUri,
  4: map<string, string> parameters
}

service WriteMetastore extends metastore.Metastore {
  OpenTxnsResponse open_txns(1: OpenTxnRequest rqst),
  void commit_txn(1: CommitTxnRequest rqst)
      throws (1: metastore.NoSuchTxnException o1, 2: TxnAbortedException o2),
  void abort_txn(1: AbortTxnRequest rqst) throws (1: metastore.NoSuchTxnException o1),
  LockResponse lock(1: LockRequest rqst)
      throws (1: metastore.NoSuchTxnException o1, 2: TxnAbortedException o2),
  void unlock(1: UnlockRequest rqst) throws (1: NoSuchLockException o1, 2: TxnOpenException o2),
  void heartbeat(1: HeartbeatRequest ids)
      throws (1: NoSuchLockException o1, 2: metastore.NoSuchTxnException o2, 3: TxnAbortedException o3),
  AllocateTableWriteIdsResponse allocate_table_write_ids(1: AllocateTableWriteIdsRequest rqst)
      throws (1: metastore.NoSuchTxnException o1, 2: TxnAbortedException o2, 3: metastore.MetaException o3),
  CompactionResponse compact2(1: CompactionRequest rqst),
  OptionalCompactionInfoStruct find_next_compact2(1: FindNextCompactRequest rqst)
      throws (1: metastore.MetaException o1),
  void update_compactor_state(1: CompactionInfoStruct cr, 2: i64 txn_id),
  void mark_compacted(1: CompactionInfoStruct cr) throws (1: metastore.MetaException o1),
  void create_database(1: Database database)
      throws (1: AlreadyExistsException o1, 2: InvalidObjectException o2, 3: metastore.MetaException o3),
  void create_table_req(1: CreateTableRequest request)
      throws (1: AlreadyExistsException o1, 2: InvalidObjectException o2, 3: metastore.MetaException o3,
              4: metastore.NoSuchObjectException o4),
  void create_table(1: Table tbl)
      throws (1: AlreadyExistsException o1, 2: InvalidObjectException o2, 3: metastore.MetaException o3,
              4: metastore.NoSuchObjectException o4),
  void drop_table(1: string dbname, 2: string name, 3: bool deleteData)
      throws (1: metastore.NoSuchObjectException o1, 2: metastore.MetaException o3),
  Partition add_partition(1: Partition new_part)
      throws (1: InvalidObjectException o1, 2: AlreadyExistsException o2, 3: metastore.MetaException o3),
  bool drop_partition_by_name(1: string db_name, 2: string tbl_name, 3: string part_name, 4: bool deleteData)
      throws (1: metastore.NoSuchObjectException o1, 2: metastore.MetaException o2),
  void alter_table(1: string dbname, 2: string tbl_name, 3: Table new_tbl)
      throws (1: InvalidOperationException o1, 2: metastore.MetaException o2)
}
