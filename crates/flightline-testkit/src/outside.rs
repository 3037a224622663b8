//! Looking at a store past Flightline, as another program does.

use flightline::store::Location;
use postgres::{Client, NoTls};

use crate::World;

/// Returns the rows of a query whose columns are all texts; `{project}` stands for the world's project.
pub fn query(world: &World, sql: &str) -> Vec<Vec<Option<String>>> {
    let sql = sql.replace("{project}", &format!("'{}'", world.project));
    match &world.location {
        Location::Folder(folder) => {
            let database = rusqlite::Connection::open(folder.join("flightline.db"));
            let database = database.expect("the database opens");
            let mut query = database.prepare(&sql).expect("SQLite takes it");
            let width = query.column_count();
            let rows = query.query_map([], |row| (0..width).map(|at| row.get(at)).collect());
            rows.and_then(Iterator::collect).expect("rows of texts")
        }
        Location::Postgres(url) => {
            let mut client = Client::connect(url, NoTls).expect("the server answers");
            let rows = client.query(&sql, &[]).expect("PostgreSQL takes it");
            let texts = |row: &postgres::Row| (0..row.len()).map(|at| row.get(at)).collect();
            rows.iter().map(texts).collect()
        }
    }
}
