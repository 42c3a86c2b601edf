TEXT = '''
core.clock <- core.clock core.durations core.timing core.faults
core.ids <- core.ids core.names core.lane_names
core.record <- core.record core.trusted
core.upkeep <- core.retention core.archive core.restored
core.ledger <- core.ledger core.leasing core.new_job core.owned_lane
core.states <- core.states core.reasons core.waiting
core.pipeline <- core.pipeline core.ends engine.step_table
core.errors <- core.errors core.retry
core.http <- core.http core.visit
core.rules <- core.rules core.robots
core.storage <- core.place core.blobs
core.recheck <- core.watch
core.reading <- core.offload

engine.work.worker <- engine.work
engine.work.settle <- engine.settle_singly engine.in_flight
engine.work.attempt <- engine.attempt engine.attempt_log engine.suspects
engine.work.job_log <- engine.job_log
engine.work.retry <- engine.retry
engine.work.heartbeat <- engine.heartbeat engine.store_clock
engine.work.batch <- engine.batch
engine.work.claims <- engine.claims
engine.work.stats <- engine.stats
engine.lanes.lane <- engine.lane engine.caps engine.rules engine.lane_users
engine.lanes.breaker <- engine.breaker
engine.lanes.pace <- engine.limiter engine.handover
engine.lanes.ownership <- engine.lane_ownership engine.lane_fairness
engine.lanes.fetch <- engine.lane_fetch engine.job_secret engine.resume_cache
engine.lanes.rules.precedence <- politeness.precedence politeness.sharing politeness.said
engine.lanes.rules.rulebook <- politeness.rulebook
engine.deliver <- engine.deliver engine.fullness engine.deliveries
engine.recheck <- engine.watch
engine.upkeep <- engine.sweep engine.prune engine.stored_pages

ledger.sqlite.store <- ledger.sqlite.store ledger.sqlite.alarm
ledger.sqlite.connection <- ledger.sqlite.writer ledger.sqlite.database ledger.sqlite.bulk
ledger.sqlite.state <- ledger.sqlite.writer_state ledger.sqlite.flows
ledger.sqlite.submit <- ledger.sqlite.submit ledger.sqlite.chunks ledger.sqlite.parts
ledger.sqlite.append <- ledger.sqlite.append ledger.sqlite.again ledger.sqlite.watches
ledger.sqlite.tasks <- ledger.sqlite.tasks ledger.sqlite.joining ledger.sqlite.followers
ledger.sqlite.settle <- ledger.sqlite.settle ledger.sqlite.attempts
ledger.sqlite.end_hooks <- ledger.sqlite.aftermath
ledger.sqlite.changes <- ledger.sqlite.changes ledger.sqlite.counters ledger.sqlite.tells
ledger.sqlite.records <- ledger.sqlite.records ledger.sqlite.unseen
ledger.sqlite.control <- ledger.sqlite.control ledger.sqlite.rescue
ledger.sqlite.upkeep <- ledger.sqlite.prune ledger.sqlite.archive ledger.sqlite.restore ledger.sqlite.compact
ledger.postgres.store <- ledger.postgres.store ledger.postgres.drain ledger.postgres.settle_and_lease
ledger.postgres.connection <- ledger.postgres.connection ledger.postgres.pooled ledger.postgres.database ledger.postgres.arrays ledger.postgres.listen ledger.postgres.names
ledger.postgres.submit <- ledger.postgres.submit ledger.postgres.submission ledger.postgres.parts
ledger.postgres.append <- ledger.postgres.append ledger.postgres.again ledger.postgres.watches
ledger.postgres.tasks <- ledger.postgres.tasks ledger.postgres.joining ledger.postgres.followers
ledger.postgres.lease <- ledger.postgres.lease ledger.postgres.offers ledger.postgres.suspects
ledger.postgres.settle <- ledger.postgres.settle ledger.postgres.group ledger.postgres.attempts
ledger.postgres.end_hooks <- ledger.postgres.aftermath
ledger.postgres.changes <- ledger.postgres.changes ledger.postgres.counters ledger.postgres.tells
ledger.postgres.records <- ledger.postgres.records ledger.postgres.record_sql ledger.postgres.unseen
ledger.postgres.aliases <- ledger.postgres.aliases ledger.postgres.records_by_kind
ledger.postgres.lanes <- ledger.postgres.lanes ledger.postgres.flows ledger.postgres.shared_lanes
ledger.postgres.control <- ledger.postgres.control ledger.postgres.rescue
ledger.postgres.upkeep <- ledger.postgres.prune ledger.postgres.archive ledger.postgres.restore ledger.postgres.sweep
ledger.rules.changes <- ledger.shared.changelog ledger.shared.change_reader ledger.shared.stored_change ledger.shared.tells
ledger.rules.counters <- ledger.shared.counting ledger.shared.spending ledger.shared.refusals
ledger.rules.jobs <- ledger.shared.job_creation ledger.shared.plan_encoding ledger.shared.command_batch ledger.shared.joining
ledger.rules.scheduling <- ledger.shared.fair_share ledger.shared.free_lanes ledger.shared.lane_without_task ledger.shared.promotion ledger.shared.patience ledger.shared.suspects
ledger.rules.end_hooks <- ledger.shared.aftermath ledger.shared.attempt_log
ledger.catalog <- ledger.catalog ledger.shared.evidence
ledger.rules.records <- ledger.shared.unseen ledger.shared.alias_names ledger.shared.rejects ledger.shared.text
ledger.rules.recheck <- ledger.shared.watch_page
ledger.rules.upkeep <- ledger.shared.retention ledger.shared.restoring
ledger.rules.verbs <- ledger.shared.verbs
ledger.schema.core_tables <- ledger.schema.core_tables ledger.schema.queue_tables
ledger.schema.tables <- ledger.schema.new_store ledger.schema.archive_tables ledger.schema.delivery_tables ledger.schema.politeness_tables
ledger.schema.record_tables <- ledger.schema.record_tables ledger.schema.watched ledger.schema.column_types
ledger.schema.record_ddl <- ledger.schema.record_ddl ledger.schema.plain_ddl
ledger.schema.connect <- ledger.schema.connect ledger.schema.namespace ledger.schema.search_path ledger.schema.pooler
ledger.schema.migrate <- ledger.schema.migrate ledger.schema.derived ledger.schema.revisions
ledger.reports.reports <- ledger.reports.reports ledger.reports.attempts ledger.reports.rejected ledger.reports.waiting
ledger.reports.records <- ledger.reports.records ledger.reports.as_of
ledger.reports.record_filters <- ledger.reports.record_filters ledger.reports.record_walks
ledger.reports.models <- ledger.reports.models ledger.reports.rows
ledger.tables.pages <- ledger.side_tables.blob_folder ledger.side_tables.blob_references ledger.side_tables.archives
ledger.tables.domains <- ledger.side_tables.domains ledger.side_tables.robots ledger.side_tables.lane_queues
ledger.tables.schedules <- ledger.side_tables.schedules ledger.side_tables.watches
ledger.tables.sinks <- ledger.side_tables.sinks ledger.side_tables.sink_rows

sdk.queries <- kit.queries kit.queries.tables kit.queries.columns kit.queries.page kit.queries.aliases kit.queries.change_log kit.queries.jobs kit.queries.values
sdk.search.index <- kit.search.index kit.search.word_table
sdk.search.ranking <- kit.search.ranking kit.search.words
sdk.http.routes <- kit.http.routes kit.http.json_route kit.http.params kit.http.openapi kit.http.examples
sdk.http.streams <- kit.http.event_stream kit.http.task_waiter
sdk.cli.invocation <- kit.cli.invocation kit.cli.running kit.cli.exit_codes kit.cli.stopping kit.cli.ids kit.cli.finding
sdk.cli.render <- kit.cli.render kit.cli.words kit.cli.json_text kit.cli.activity
sdk.cli.run_job <- kit.cli.run_job kit.cli.job_report
sdk.cli.client <- kit.cli.client kit.cli.errors
sdk.feature <- kit.feature kit.sink_feature kit.figures kit.plugins kit.references
sdk.settings <- kit.settings kit.setting_types
sdk.delivery <- kit.mirror kit.indexed kit.publication kit.change_json kit.number_set
sdk.tabular <- kit.tabular kit.parquet

fetch.http.fetcher <- fetch.http fetch.fetcher fetch.body fetch.send_hook fetch.stopwatch
fetch.http.connect <- fetch.connect fetch.errors
fetch.http.decode <- fetch.decode
fetch.http.sessions <- fetch.sessions fetch.redirect
fetch.guard <- fetch.guard fetch.dns fetch.addresses
fetch.robots <- fetch.robots fetch.robots_rules
fetch.proxies.pool <- fetch.proxies fetch.proxy_state
fetch.proxies.tunnel <- fetch.proxy_tunnel fetch.endpoint
fetch.proxies.check <- fetch.proxy_check
fetch.logins <- fetch.logins fetch.credentials
fetch.fingerprints <- fetch.fingerprints fetch.regions
fetch.browser.chromium <- fetch.browser.chromium fetch.browser.executable fetch.browser.orphans fetch.browser.failures
fetch.browser.visit <- fetch.browser.visit fetch.browser.capture fetch.browser.page_events fetch.browser.actions
fetch.browser.relay <- fetch.browser.relay fetch.browser.framing

storage.settings <- storage.settings storage.address
storage.folder <- storage.folder storage.opening
storage.s3 <- storage.s3 storage.s3_errors
storage.pages <- fetch.blobs
storage.pages.local <- fetch.blobs.local fetch.blobs.collection
storage.pages.folder <- fetch.blobs.folder fetch.blobs.identity
storage.pages.segments <- fetch.blobs.segments fetch.blobs.frames
storage.pages.remote <- fetch.blobs.remote fetch.blobs.remote_collection fetch.blobs.place_clock
storage.pages.index <- fetch.blobs.index

secrets.service_key <- secrets.service_key secrets.key_file
logging <- logs.lines logs.redaction logs
settings.loading <- settings.loading settings.sources

app.features <- features config
app.wiring <- wiring app.page_store app.references app.fit
app.compose <- app.opening
app.intake <- app.intake app.retries
app.lanes <- waiting lane_switch
app.sinks <- app.sink_roster

api.create <- api.create api.head api.limits api.request_id
api.upkeep <- api.retention api.archive api.blobs
api.changes <- api.changes api.change_feed
api.events <- api.events api.feed api.frames
api.docs <- api.docs api.docs_html api.docs_script api.docs_style
api.examples <- api.examples api.job_examples
api.health <- api.health api.health_snapshot
api.jobs <- api.jobs api.pipeline_filter
api.lanes <- api.lanes api.lane_detail
api.metrics <- api.metrics api.ledger_metrics api.worker_metrics
api.schedules <- api.schedules api.watches

cli.main <- cli.main cli.report
cli.feature_commands <- cli.feature_commands cli.help_text
cli.supervise <- cli.supervise cli.supervisor_lock
cli.checks <- cli.checks cli.file_checks cli.place_checks cli.service_checks
cli.demo_run <- cli.demo_run cli.demo_crash cli.demo_setup
cli.upkeep <- cli.prune cli.archive cli.blobs cli.restore cli.database
cli.job_tables <- cli.job_tables cli.job_log
cli.rechecks <- cli.watches
cli.demos.places <- cli.demos.places cli.demos.places_audit
client.connect <- cli.connect cli.transport cli.asgi
client.records <- reading

extract.html.document <- extract.document extract.beginning
extract.html.limits <- extract.html_limits extract.html_depth
extract.html.structured_data <- extract.structured_data extract.json_ld extract.microdata extract.json_search extract.script_data
extract.html.page_kind <- extract.page_kind
extract.html.main_text <- extract.main_text extract.labels
extract.text.urls <- extract.urls extract.canonical
extract.text.addresses <- extract.addresses extract.address_forms
extract.text.locations <- extract.locations extract.countries
extract.text.prices <- extract.prices extract.currencies
extract.text.contacts <- extract.emails extract.phones
extract.text.normalise <- extract.normalise
extract.text.strings <- extract.text extract.confidence
extract.text.salaries <- extract.salaries
extract.companies <- extract.company_names extract.organisation_types extract.organisations
extract.postings.kinds <- extract.jobs.kinds extract.jobs.witnesses
extract.postings.answers <- extract.jobs.answers extract.jobs.roles
extract.listings.reading <- extract.homes.reading extract.homes.days
extract.listings.identity <- extract.homes.identity extract.homes.places extract.homes.values
extract.products.visible <- extract.products.visible extract.products.buying extract.products.codes extract.products.makers extract.products.headline
extract.products.findings <- extract.products.findings extract.gtin extract.products.missing
extract.products.parser <- extract.products.parser extract.products.selecting
extract.products.parsers.base <- extract.products.parsers.base extract.products.loose extract.products.price_choice

pipelines.listings.matching <- pipelines.listings.same_home pipelines.listings.resolve
pipelines.listings.parse <- pipelines.listings.parse pipelines.listings.rents pipelines.listings.values
pipelines.listings.records <- pipelines.listings.records pipelines.listings.tables pipelines.listings.address pipelines.listings.blocks
pipelines.listings.tasks <- pipelines.listings.tasks pipelines.listings.markets
pipelines.listings.pipeline <- pipelines.listings.pipeline pipelines.listings.ends
pipelines.listings.duties_scrape <- pipelines.listings.duties_scrape pipelines.listings.duties_items
pipelines.listings.duties_verify <- pipelines.listings.duties_verify pipelines.listings.evidence
pipelines.listings.wiring <- pipelines.listings.wiring pipelines.listings.duties pipelines.listings.prepare pipelines.listings.checks
pipelines.listings.api <- pipelines.listings.api pipelines.listings.api_limits pipelines.listings.api_sources
pipelines.listings.cli_markets <- pipelines.listings.cli_markets pipelines.listings.cli_limits
pipelines.listings.reports <- pipelines.listings.reports pipelines.listings.reports_sources pipelines.listings.reports_homes
pipelines.listings.reports_markets <- pipelines.listings.reports_markets pipelines.listings.reports_limits pipelines.listings.dispatch

pipelines.places.wiring <- pipelines.places.wiring pipelines.places.checks pipelines.places.price
pipelines.places.job <- pipelines.places.job pipelines.places.query

pipelines.products.api <- pipelines.products.api pipelines.products.api_parts
pipelines.products.cli <- pipelines.products.cli pipelines.products.cli_domains pipelines.products.cli_search
pipelines.products.cli_crawl <- pipelines.products.cli_crawl pipelines.products.cli_list pipelines.products.cli_recrawl
pipelines.products.job <- pipelines.products.job pipelines.products.parts
pipelines.products.records <- pipelines.products.records pipelines.products.quarantine pipelines.products.recrawl
pipelines.products.tasks <- pipelines.products.tasks pipelines.products.recrawl_task
pipelines.products.page_outcome <- pipelines.products.page_outcome pipelines.products.links pipelines.products.answers
pipelines.products.sitemap <- pipelines.products.sitemap_step pipelines.products.sitemap
pipelines.products.health <- pipelines.products.health pipelines.products.audit
pipelines.products.reports <- pipelines.products.reports pipelines.products.reports_images pipelines.products.reports_pages pipelines.products.reports_product
pipelines.products.reports_health <- pipelines.products.reports_health pipelines.products.reports_audit
pipelines.products.wiring <- pipelines.products.wiring pipelines.products.loop pipelines.products.indexed pipelines.products.price

pipelines.reviews.api_stream <- pipelines.reviews.api_stream pipelines.reviews.api_events pipelines.reviews.api_page
pipelines.reviews.wiring <- pipelines.reviews.wiring pipelines.reviews.checks pipelines.reviews.access pipelines.reviews.log
pipelines.reviews.cli <- pipelines.reviews.cli pipelines.reviews.cli_tree
pipelines.reviews.pipeline <- pipelines.reviews.pipeline pipelines.reviews.job

pipelines.scrape.api_bodies <- pipelines.scrape.api_bodies pipelines.scrape.api_parts pipelines.scrape.examples pipelines.scrape.webhook_results
pipelines.scrape.cli <- pipelines.scrape.cli pipelines.scrape.cli_page pipelines.scrape.cli_show
pipelines.scrape.cli_batch <- pipelines.scrape.cli_batch pipelines.scrape.cli_file
pipelines.scrape.extractor <- pipelines.scrape.extractor pipelines.scrape.extractor_files pipelines.scrape.findings
pipelines.scrape.job <- pipelines.scrape.job pipelines.scrape.consent pipelines.scrape.target pipelines.scrape.parts pipelines.scrape.records
pipelines.scrape.steps <- pipelines.scrape.steps pipelines.scrape.reading pipelines.scrape.walls
pipelines.scrape.reports <- pipelines.scrape.reports pipelines.scrape.log
pipelines.scrape.wiring <- pipelines.scrape.wiring pipelines.scrape.settings
pipelines.scrape.extractors.posting_page <- pipelines.scrape.extractors.job_page pipelines.scrape.extractors.job_headline pipelines.scrape.extractors.job_words
pipelines.scrape.extractors.posting_json <- pipelines.scrape.extractors.job_json

runners.celery.broker <- runners.celery.broker runners.celery.beat runners.celery.start_checks
runners.celery.shift <- runners.celery.shift runners.celery.child runners.celery.tasks
runners.celery.dispatch <- runners.celery.dispatch runners.celery.names
runners.kafka.consumer <- runners.kafka.consumer runners.kafka.offsets runners.kafka.messages
runners.kafka.feed <- runners.kafka.feed runners.kafka.work
runners.prefect.application <- runners.prefect.desk runners.prefect.log
runners.prefect.flows <- runners.prefect.flows runners.prefect.tasks

sandbox.apify.methods <- sandbox.apify.methods sandbox.apify.datasets sandbox.apify.rows sandbox.apify.run_list sandbox.apify.starts sandbox.apify.routes
sandbox.apify.runs <- sandbox.apify.runs sandbox.apify.shapes sandbox.apify.inputs sandbox.apify.errors
sandbox.google.methods <- sandbox.google.methods sandbox.google.masks sandbox.google.reviews sandbox.google.routes
sandbox.google.world <- sandbox.google.world sandbox.google.words sandbox.google.changes
sandbox.google.config <- sandbox.google.config sandbox.google.tokens
sandbox.listings.homes <- sandbox.listings.homes sandbox.listings.items
sandbox.listings.world <- sandbox.listings.world sandbox.listings.timeline
sandbox.shop.layouts <- sandbox.shop.structured sandbox.shop.amazon sandbox.shop.own_layouts sandbox.shop.frame sandbox.shop.shown
sandbox.shop.products <- sandbox.shop.products sandbox.shop.config
sandbox.shop.server <- sandbox.shop.server sandbox.shop.images
sandbox.server <- sandbox.server sandbox.admin sandbox.serper
sandbox.journal <- sandbox.journal sandbox.calls sandbox.log
sandbox.config <- sandbox.config sandbox.knobs
sandbox.world <- sandbox.world sandbox.geography sandbox.draw
sandbox.faults <- sandbox.faults sandbox.trouble sandbox.script
sandbox.jumping_clock <- sandbox.jumping_clock sandbox.world_time
sandbox.wire <- sandbox.wire sandbox.listener
sandbox.scrape_pages <- sandbox.scrape_pages sandbox.site_pages
sandbox.upstream <- sandbox.upstream sandbox.upstream_admin
sandbox.process <- sandbox.process sandbox.upstream_main

sinks.bigquery.sink <- sinks.bigquery.sink sinks.bigquery.asked sinks.bigquery.values
sinks.bigquery.ledger_rows <- sinks.bigquery.ledger_rows sinks.bigquery.record_table sinks.bigquery.statements
sinks.elasticsearch.client <- sinks.elasticsearch.client sinks.elasticsearch.alias sinks.elasticsearch.mapping
sinks.elasticsearch.search <- sinks.elasticsearch.index sinks.elasticsearch.candidates sinks.elasticsearch.questions
sinks.elasticsearch.wiring <- sinks.elasticsearch.wiring sinks.elasticsearch.sink
sinks.files.sink <- sinks.files.sink sinks.files.leftovers sinks.files.written
sinks.files.manifest <- sinks.files.manifest sinks.files.formats
sinks.kafka.publisher <- sinks.kafka.publisher sinks.kafka.cursor sinks.kafka.published
sinks.kafka.wiring <- sinks.kafka.wiring sinks.kafka.records
sinks.webhook.changes <- sinks.webhook.changes sinks.webhook.backlog
sinks.webhook.outbox <- sinks.webhook.outbox sinks.webhook.sink
sinks.webhook.pipeline <- sinks.webhook.pipeline sinks.webhook.steps
sinks.webhook.receivers <- sinks.webhook.receivers sinks.webhook.task
sinks.webhook.wiring <- sinks.webhook.wiring sinks.webhook.settings
sinks.log_cursor <- sinks.log_place
'''
MERGE = {}
for line in TEXT.splitlines():
    if '<-' in line:
        a, b = line.split('<-'); MERGE['forager.' + a.strip()] = ['forager.' + x for x in b.split()]
PACKAGES = {'forager.kit': 'forager.sdk', 'forager.politeness': 'forager.engine.lanes.rules', 'forager.ledger.side_tables': 'forager.ledger.tables',
            'forager.ledger.shared': 'forager.ledger.rules', 'forager.offload': 'forager.reading', 'forager.extract.jobs': 'forager.extract.postings',
            'forager.extract.homes': 'forager.extract.listings'}
RENAME = {'forager.' + k: v for k, v in {
"ledger.postgres.listen:LONGEST_PAUSE": "LISTEN_PAUSE", "engine.stored_pages:EVERY": "PAGES_EVERY", "ledger.postgres.watches:_HOLD": "_HOLD_DUE", "ledger.postgres.tells:_VERSIONS": "_TASK_VERSIONS",
"ledger.postgres.shared_lanes:_AWAKE": "_SHARED_AWAKE", "ledger.schema.watched:_check": "_check_due_column", "kit.sink_feature:ENTRY_POINTS": "SINK_ENTRY_POINTS",
"fetch.credentials:_NAME": "_CREDENTIAL_NAME", "api.watches:_report": "_recheck_report", "api.watches:_ONE": "_ONE_RECHECK",
"cli.demo_run:_run": "_run_demo", "cli.database:app": "database_app", "cli.blobs:app": "blobs_app",
"cli.database:_show": "_show_database", "cli.job_tables:tasks": "task_table", "cli.job_log:_of_job": "_log_of_job", "cli.job_log:entries": "job_log_entries", "cli.job_log:table": "job_log_table",
"extract.html_depth:_BLOCKS": "_DEEP_BLOCKS", "extract.json_search:MOST_NODES": "JSON_MOST_NODES", "extract.json_search:DEEPEST": "JSON_DEEPEST",
"extract.script_data:MOST_SCRIPTS": "DATA_MOST_SCRIPTS", "extract.script_data:LONGEST": "DATA_LONGEST", "extract.script_data:_DECODER": "_SCRIPT_DECODER",
"extract.phones:LONGEST": "PHONE_LONGEST", "extract.products.headline:MOST_NODES": "HEADLINE_MOST_NODES", "extract.products.headline:LONGEST": "HEADLINE_LONGEST",
"pipelines.listings.cli_limits:FIELDS": "LIMIT_FIELDS", "pipelines.products.reports_images:_report": "_image_report", "pipelines.scrape.webhook_results:FIELDS": "RESULT_FIELDS",
"sandbox.site_pages:_FILL": "_SITE_FILL", "sinks.kafka.published:_text": "_published_text", "pipelines.scrape.reading:_told": "_told_reading",
"politeness.said:Pace": "PaceRule", "core.place:Place": "Storage", "fetch.blobs.segments:Place": "FrameAt", "cli.demos.places:audit": "audit_places",
}.items()}
FLATTEN = ['forager.app', 'forager.fetch.blobs', 'forager.fetch', 'forager.kit.queries']
DOC = {}
KEEP_STRINGS = {"forager.engine", "forager.sinks", "forager.app", "forager.products", "forager.listings", "forager.scrape", "forager.kafka", "forager.rules", "forager.features", "forager.extractors", "forager.product_parsers", "forager.sinks.webhook.outbox"}
RENAME |= {'forager.' + k: v for k, v in {
"sandbox.world:Place": "SimulatedPlace", "extract.homes.places:Place": "AddressFound", "fetch.regions:Place": "RegionCity", "runners.kafka.consumer:Place": "Position",
"sandbox.audit:Page": "AuditedPage", "kit.http.envelope:Page": "ResultPage", "kit.cli.client:Page": "ListPage", "kit.queries.page:Page": "QueryPage",
"pipelines.scrape.extractor:Page": "PageInput", "pipelines.scrape.api_bodies:Page": "ResultSource", "pipelines.products.records:Page": "CrawledPage",
"sandbox.google.routes:Asked": "GoogleCall", "sandbox.apify.routes:Asked": "ApifyCall", "sinks.bigquery.asked:Asked": "RowRequests",
"pipelines.scrape.cli_page:Asked": "RequestedPage", "pipelines.products.tasks:Asked": "PageOptions", "ledger.shared.command_batch:Asked": "QueuedCommand",
"sandbox.site_pages:Answer": "SiteAnswer", "sandbox.answers:Answer": "SerperAnswer", "kit.cli.client:Answer": "ApiAnswer", "extract.jobs.answers:Answer": "PostingFields", "fetch.browser.intercept:Answer": "MainAnswer",
"kit.search.ranking:Found": "RankedHits", "pipelines.scrape.extractor:Found": "FieldFound", "pipelines.listings.parse:Found": "ListingFound", "ledger.postgres.records_by_kind:Found": "RecordsOfKind",
"sinks.jsonl:Part": "JsonlPart", "pipelines.scrape.api_parts:Part": "JobPart", "ledger.shared.plan_encoding:Part": "PlanPart",
"sandbox.site:Visit": "SiteVisit", "sandbox.listings.site:Visit": "ListingVisit",
"sandbox.log:Entry": "LoggedRequest", "fetch.browser.orphans:Entry": "RecordedBrowser", "fetch.blobs.index:Entry": "IndexedPage",
"sandbox.audit:Audit": "ServerAudit", "kit.cli.demo:Audit": "DemoAudit",
"sandbox.apify.runs:Run": "SimulatedRun", "pipelines.listings.apify:Run": "ApifyRun", "ledger.sqlite.chunks:Run": "RunCommand",
"sandbox.shop.products:Product": "SimulatedProduct", "pipelines.scrape.extractors.product:Product": "ProductFields",
"sandbox.listings.homes:Home": "SimulatedHome", "extract.homes.values:Home": "ListingValues", "pipelines.listings.evidence:Home": "HomeMarks",
"kit.cli.progress:Pace": "JobSpeed", "engine.deliver:Pace": "DeliveryTiming",
"sinks.files.written:Written": "WrittenChanges", "sinks.elasticsearch.documents:Written": "BulkResult", "ledger.postgres.tasks:Written": "TasksWritten",
"extract.document:Line": "VisibleLine", "pipelines.scrape.cli_file:Line": "TargetLine", "pipelines.products.cli_list:Line": "UrlLine",
"pipelines.scrape.cli_file:Checked": "CheckedTargets", "pipelines.products.cli_list:Checked": "CheckedUrls", "fetch.proxy_check:Checked": "ProxyCheckResult",
"api.schedules:Removed": "RemovedSchedule", "api.sinks:Removed": "RemovedSink", "ledger.shared.retention:Removed": "PageRemoved",
"sandbox.serper:Account": "SerperAccount", "sandbox.serper:Verdict": "SerperVerdict", "sandbox.serper:Serper": "SimulatedSerper",
"sandbox.receiver:Received": "ReceivedRequest", "core.new_job:Received": "PartsReceived", "sandbox.listener:Listener": "PortListener", "sandbox.answers:Query": "SerperQuery",
"sandbox.wire:Request": "WireRequest", "kit.cli.demo:Upstream": "DemoUpstream", "kit.cli.invocation:Host": "ApplicationHost", "sandbox.upstream:Host": "UpstreamHost",
"sandbox.calls:Repeat": "RepeatedCall", "ledger.sqlite.submit:Repeat": "RepeatedSubmission", "sandbox.google.methods:Given": "GoogleReply", "settings.sources:Given": "GivenValue",
"sandbox.google.methods:Methods": "GoogleMethods", "sandbox.apify.methods:Methods": "ApifyMethods", "sandbox.shop.catalogue:Link": "ShopLink",
"sandbox.listings.world:Market": "SimulatedMarket", "sandbox.listings.world:Listing": "SimulatedListing", "ledger.reports.reports:Reports": "LedgerReports",
"kit.publication:Message": "PublishedMessage", "sinks.webhook.sink:Message": "WebhookMessage", "kit.publication:Stage": "PublishedStage", "fetch.decode:Stage": "DecoderStage",
"kit.parquet:Column": "ParquetColumn", "core.secret:About": "SealedFor", "kit.http.envelope:About": "ResponseMeta", "kit.cli.progress:View": "ProgressView", "ledger.schema.derived:View": "DerivedView",
"sinks.jsonl:Manifest": "JsonlManifest", "sinks.webhook.sink:EndedJob": "JobSummary", "sinks.webhook.task:Delivery": "WebhookDelivery", "engine.deliver:Delivery": "SinkDelivery",
"sinks.kafka.cluster:Cluster": "KafkaCluster", "sinks.elasticsearch.client:Cluster": "SearchCluster", "sinks.elasticsearch.documents:Document": "IndexDocument",
"extract.company_names:Named": "CompanyName", "ledger.postgres.joining:Named": "JustQueued", "extract.products.findings:Findings": "ProductFindings", "pipelines.scrape.findings:Findings": "FieldFindings",
"pipelines.listings.tasks:Scrape": "ScrapedMarket", "pipelines.scrape.target:Scrape": "ScrapeTask", "fetch.browser.gate:Target": "GateTarget", "pipelines.products.reports_health:HealthReport": "ParserHealthReport",
"pipelines.listings.parse:Batch": "DatasetBatch", "ledger.shared.unseen:Batch": "UpdateBatch", "pipelines.listings.resolve:Owner": "OwningMarket", "ledger.sqlite.lock:Owner": "LockOwner",
"ledger.postgres.settle_and_lease:Worker": "SessionCache", "ledger.shared.job_creation:Limits": "QueueLimits", "ledger.shared.retention:Limits": "PruneLimits",
"ledger.shared.fair_share:Server": "ServingSession", "cli.sandbox_upstreams:Server": "SandboxServer", "ledger.postgres.settle:Effect": "PendingWrites",
"fetch.body:Body": "BodyBlocks", "fetch.browser.framing:Body": "BodyEnd", "fetch.robots_rules:Rules": "RobotsRules", "fetch.blobs.index:Index": "PageIndex",
}.items()}

INITS = {
 "engine.work": "Work: lease tasks, run their steps, settle the outcomes.",
 "engine.lanes": "Lanes: who owns one, how fast it may send, and when it must wait.",
 "client": "The client of the API: finds a running Forager, or opens the store in this process.",
 "fetch.http": "Plain HTTP: one request, one complete answer, guarded and capped.",
 "fetch.proxies": "Proxies: selection and health, tunnels through them, and checks.",
 "extract.html": "Readers of HTML: the parsed page, structured data, main text, kind of page.",
 "extract.text": "Readers of text: addresses, prices, URLs, phone numbers, salaries.",
}
