"""Types of schema.org that declare an organisation: companies, shops, practices, offices, schools, clubs."""

ORGANISATIONS = frozenset(
    """
    Organization Airline Consortium Cooperative Corporation EducationalOrganization CollegeOrUniversity
    ElementarySchool HighSchool MiddleSchool Preschool School GovernmentOrganization LibrarySystem LocalBusiness
    MedicalOrganization DiagnosticLab VeterinaryCare NGO NewsMediaOrganization OnlineBusiness OnlineStore
    OnlineMarketplace PerformingGroup DanceGroup MusicGroup TheaterGroup PoliticalParty ResearchOrganization
    SearchRescueOrganization SportsOrganization SportsTeam WorkersUnion AnimalShelter ArchiveOrganization
    AutomotiveBusiness AutoBodyShop AutoDealer AutoPartsStore AutoRental AutoRepair AutoWash GasStation
    MotorcycleDealer MotorcycleRepair ChildCare DryCleaningOrLaundry EmergencyService FireStation Hospital
    PoliceStation EmploymentAgency EntertainmentBusiness AdultEntertainment AmusementPark ArtGallery Casino
    ComedyClub MovieTheater NightClub FinancialService AccountingService BankOrCreditUnion InsuranceAgency
    FoodEstablishment Bakery BarOrPub Brewery CafeOrCoffeeShop Distillery FastFoodRestaurant IceCreamShop Restaurant
    Winery GovernmentOffice PostOffice HealthAndBeautyBusiness BeautySalon DaySpa HairSalon HealthClub NailSalon
    TattooParlor HomeAndConstructionBusiness Electrician GeneralContractor HVACBusiness HousePainter Locksmith
    MovingCompany Plumber RoofingContractor InternetCafe LegalService Attorney Notary Library LodgingBusiness
    BedAndBreakfast Campground Hostel Hotel Motel Resort SkiResort VacationRental MedicalBusiness CommunityHealth
    Dentist Dermatology DietNutrition Geriatric Gynecologic MedicalClinic CovidTestingFacility Midwifery Nursing
    Obstetric Oncologic Optician Optometric Otolaryngologic Pediatric Pharmacy Physician IndividualPhysician
    PhysiciansOffice Physiotherapy PlasticSurgery Podiatric PrimaryCare Psychiatric PublicHealth ProfessionalService
    RadioStation RealEstateAgent RecyclingCenter SelfStorage ShoppingCenter SportsActivityLocation BowlingAlley
    ExerciseGym GolfCourse PublicSwimmingPool SportsClub StadiumOrArena TennisComplex Store BikeStore BookStore
    ClothingStore ComputerStore ConvenienceStore DepartmentStore ElectronicsStore Florist FurnitureStore GardenStore
    GroceryStore HardwareStore HobbyShop HomeGoodsStore JewelryStore LiquorStore MensClothingStore MobilePhoneStore
    MovieRentalStore MusicStore OfficeEquipmentStore OutletStore PawnShop PetStore ShoeStore SportingGoodsStore
    TireShop ToyStore WholesaleStore TelevisionStation TouristInformationCenter TravelAgency Museum Zoo Aquarium
    """.split()
)
"""`Organization` and `LocalBusiness` with the types below them, and places that are run like one, such as museums."""
